/* SPDX-License-Identifier: MIT */
/*
 * Shared files: files of ours that other processes read or map while this one makes, replaces or
 * removes them. The table of their formats is in core/state/README.md.
 *
 * unfinished  the name under which a file is made. It gets its own name only when it is complete,
 *             so a reader finds the whole file, the one before, or none
 * new         a file that has its own name from the start; its reader checks more than the head
 *
 * A maker that is killed leaves the unfinished file. The next maker of that name removes it, and so
 * does the sweep of the directory. For example, a job's segment is made as ".bert.unfinished"; its
 * maker is killed, and the next process of the job makes it anew. So no two processes may use an
 * unfinished name at a time: it has a pid or a random number in it, or a lock is held.
 *
 * Every function runs inside the user's process: descriptors are CLOEXEC, nothing waits, and each
 * returns a negative errno where it fails.
 */
#ifndef SPILLWAY_SHARED_FILE_H
#define SPILLWAY_SHARED_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The head with which the files of every format and version begin. */
struct shared_head {
	char magic[8];
	uint32_t version;
};

/* A format, as this build writes it. No pointer in it: each would cost a process a page. */
struct shared_format {
	char magic[9];
	uint32_t version;
	uint64_t size; /* bytes of a file, as its head says them, too */
};

enum shared_fit { SHARED_FITS, SHARED_OTHER_KIND, SHARED_OTHER_VERSION, SHARED_OTHER_SIZE };

/* Writes the head of a file. */
void shared_file_write_head(const struct shared_format *format, void *file);
/*
 * Compares a file that was read, its first bytes at least, and the size that its head says. The
 * answer is the first that does not fit, because of another version the size may lie elsewhere.
 */
enum shared_fit shared_file_fits(const struct shared_format *format, const void *file,
                                 uint64_t size);

/* Makes an empty file of this user alone, to read and write. Returns a descriptor; -EEXIST. */
int shared_file_new(int directory, const char *name);

/* Begins a file under its unfinished name, in the place of one that was left. As above. */
int shared_file_begin(int directory, const char *unfinished);
/*
 * Gives the file its mode, with any umask, and its name: a file of that name is replaced. Without
 * success the unfinished file is removed. The descriptor stays the caller's.
 */
int shared_file_complete(int fd, int directory, const char *unfinished, const char *name,
                         mode_t mode);
/* Makes a file of these bytes and closes it: all of the above. */
int shared_file_put(int directory, const char *unfinished, const char *name, mode_t mode,
                    const void *bytes, size_t size);

/*
 * Gives a file unused pages, size bytes from `at`. So a full disk is an answer here, and no SIGBUS
 * when a mapping is touched. -EFBIG: beyond the process's limit of file sizes.
 */
int shared_file_reserve(int fd, size_t at, size_t size);
/* Gives an existing file back the pages that were cut out of it. Never writes. */
int shared_file_refill(int fd, size_t at, size_t size);

#endif
