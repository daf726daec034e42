/* SPDX-License-Identifier: MIT */
/*
 * Oldest names of glibc's symbols, so that every installed object loads on glibc 2.28, too.
 *
 * Included first in core/, shim/, tools/, the software GPU and the training that is installed with
 * it (see the Makefile). glibc 2.34 moved libpthread and libdl into libc and gave their functions
 * new versions. The old versions are the same functions. For example, an object that asks for
 * pthread_create@GLIBC_2.34 does not load on a machine with glibc 2.28. Where a function has no old
 * version (stat), the code makes the system call (file_status.h). tests/e2e/test_exports.sh finds
 * names that are missing here.
 *
 * libspillway.so is run on the loaders of glibc 2.31 and 2.41 as well.
 */
#ifndef SPILLWAY_GLIBC_H
#define SPILLWAY_GLIBC_H

#if defined(__x86_64__)
#define OLD(symbol, version) __asm__(".symver " #symbol "," #symbol "@" version)
#define BASE                 "GLIBC_2.2.5"
#define SINCE(version)       version
#elif defined(__aarch64__)
#define OLD(symbol, version) __asm__(".symver " #symbol "," #symbol "@" version)
#define BASE                 "GLIBC_2.17" /* the first for this architecture */
#define SINCE(version)       BASE
#endif

OLD(dladdr, BASE);
OLD(dladdr1, SINCE("GLIBC_2.3.3"));
OLD(dlclose, BASE);
OLD(dlerror, BASE);
OLD(dlinfo, SINCE("GLIBC_2.3.3"));
OLD(dlmopen, SINCE("GLIBC_2.3.4"));
OLD(dlopen, BASE);
OLD(dlsym, BASE);
OLD(pthread_attr_setstacksize, BASE);
OLD(pthread_condattr_setclock, SINCE("GLIBC_2.3.3"));
OLD(pthread_create, BASE);
OLD(pthread_detach, BASE);
OLD(pthread_join, BASE);
OLD(pthread_key_create, BASE);
OLD(pthread_key_delete, BASE);
OLD(pthread_mutex_consistent, SINCE("GLIBC_2.12"));
OLD(pthread_mutex_trylock, BASE);
OLD(pthread_mutexattr_destroy, BASE);
OLD(pthread_mutexattr_init, BASE);
OLD(pthread_mutexattr_setpshared, BASE);
OLD(pthread_mutexattr_setrobust, SINCE("GLIBC_2.12"));
OLD(pthread_mutexattr_settype, BASE);
OLD(pthread_once, BASE);
OLD(pthread_rwlock_rdlock, BASE);
OLD(pthread_rwlock_unlock, BASE);
OLD(pthread_rwlock_wrlock, BASE);
OLD(pthread_setname_np, SINCE("GLIBC_2.12"));
OLD(pthread_setspecific, BASE);
OLD(pthread_sigmask, BASE);
OLD(sem_destroy, BASE);
OLD(sem_init, BASE);
OLD(sem_post, BASE);
OLD(sem_wait, BASE);

#undef OLD
#undef BASE
#undef SINCE

#endif
