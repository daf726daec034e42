/* SPDX-License-Identifier: MIT */
/* The search for the driver library. Rules: runs inside the user's process too. */
#include "core/base/driver_library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/place.h"

/*
 * /etc/ld.so.cache, the loader's index of library folders.
 *
 * The format is glibc's "glibc-ld.so.cache1.1", sometimes behind the older "ld.so-1.7.0" one; the
 * file is checked before it is believed, an odd one counts as empty. Allocates nothing.
 */

struct cache_entry {
	int32_t flags;
	uint32_t key, value; /* offsets of name and path from the header */
	uint32_t os_version;
	uint64_t hardware;
};

struct cache_header {
	char magic[20]; /* with the version */
	uint32_t count;
	uint32_t string_bytes;
	uint32_t unused[5];
};

static const char magic[] = "glibc-ld.so.cache1.1";
_Static_assert(sizeof(struct cache_header) == 48, "as in the file");
_Static_assert(sizeof(struct cache_entry) == 24, "as in the file");

/* Library kind of this architecture in cache_entry.flags. */
#if defined(__x86_64__)
enum { WANTED_FLAGS = 0x0303 };
#elif defined(__aarch64__)
enum { WANTED_FLAGS = 0x0a03 };
#endif

static const char *string_at(const char *base, size_t size, uint32_t offset)
{
	return offset < size && memchr(base + offset, '\0', size - offset) ? base + offset : NULL;
}

static bool loader_cache_search(const char *data, size_t size, const char *name,
                                bool (*accept)(void *cookie, const char *path), void *cookie)
{
	const char *start = memmem(data, size, magic, sizeof(magic) - 1);
	struct cache_header header;
	size_t left;

	if (!start)
		return false;
	left = size - (size_t)(start - data);
	if (left < sizeof(header))
		return false;
	memcpy(&header, start, sizeof(header));
	if (header.count > (left - sizeof(header)) / sizeof(struct cache_entry))
		return false;
	for (uint32_t i = 0; i < header.count; i++) {
		const char *key, *value;
		struct cache_entry e;

		memcpy(&e, start + sizeof(header) + i * sizeof(e), sizeof(e));
		if (e.flags != WANTED_FLAGS)
			continue;
		key = string_at(start, left, e.key);
		value = string_at(start, left, e.value);
		if (key && value && strcmp(key, name) == 0 && accept(cookie, value))
			return true;
	}
	return false;
}

/*
 * Offers each path of the library `name` for this architecture to accept(), in the cache's order,
 * until one is accepted. Returns whether one was. The path lives for the call only.
 */
static bool loader_cache_find(const char *name, bool (*accept)(void *cookie, const char *path),
                              void *cookie)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	off_t length;
	bool found = false;

	if (fd < 0)
		return false;
	length = lseek(fd, 0, SEEK_END);
	if (length > 0) {
		void *data = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);

		if (data != MAP_FAILED) {
			found = loader_cache_search(data, (size_t)length, name, accept, cookie);
			munmap(data, (size_t)length);
		}
	}
	close(fd);
	return found;
}

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#define MACHINE   EM_X86_64
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#define MACHINE   EM_AARCH64
#endif

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
enum { NO_MAGIC_LINKS = 2 }; /* RESOLVE_NO_MAGICLINKS of <linux/openat2.h>, which may be missing */

static const char shim_names[][sizeof(SHIM_OF_2_34)] = {SHIM_LIBRARY, SHIM_OF_2_34};

static const char *const usual_folders[] = {
    "/usr/lib/" MULTIARCH,
    "/lib/" MULTIARCH,
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
};

struct search {
	const char *name;
	const char *shim;
	char *path;
	size_t size;
};

static bool is_same_file(const struct stat *one, const char *path)
{
	struct stat other;

	return file_status(path, &other) == 0 && one->st_ino == other.st_ino &&
	       one->st_dev == other.st_dev;
}

/*
 * Returns whether the file is the shim, or the shim for other versions of the C library, which lies
 * beside it.
 */
static bool driver_library_is_ours(const struct stat *file, const char *shim)
{
	const char *end = shim ? strrchr(shim, '/') : NULL;
	char path[PATH_MAX];

	if (shim && is_same_file(file, shim))
		return true;
	for (size_t i = 0; end && i < sizeof(shim_names) / sizeof(*shim_names); i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)(end - shim), shim, shim_names[i]);
		if (strcmp(path, shim) != 0 && is_same_file(file, path))
			return true;
	}
	return false;
}

/*
 * Returns whether the file can be the driver, neither empty nor the driver for 32-bit programs: a
 * search skips files that the loader would refuse.
 */
static bool driver_library_is_library(const char *path)
{
	ElfW(Ehdr) header;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) /* without a descriptor the loader will fail, and say why */
		return errno == EMFILE || errno == ENFILE;
	do
		n = read(fd, &header, sizeof(header));
	while (n < 0 && errno == EINTR);
	close(fd);
	return n == sizeof(header) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
	       header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_DYN &&
	       header.e_machine == MACHINE;
}

/*
 * Returns whether a path is the file's in other processes, too, and later: not one through a
 * descriptor, as /proc/self/fd/3 and /dev/fd/3 are. The kernel knows (since Linux 5.6).
 */
static bool is_lasting(const char *path)
{
	const struct {
		uint64_t flags, mode, resolve;
	} how = {.flags = O_PATH | O_CLOEXEC, .resolve = NO_MAGIC_LINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd >= 0)
		close(fd);
	return fd >= 0 && path[0] == '/';
}

/*
 * Takes the file when it can be the driver, by a path that lasts. A file without one (of memory, or
 * deleted) is taken as it was found, and so is each where links may not be read (a container's
 * profile).
 */
static bool accept(void *cookie, const char *path)
{
	struct search *s = cookie;
	char absolute[PATH_MAX];
	struct stat status;
	int n;

	if (file_status(path, &status) != 0 || !S_ISREG(status.st_mode) ||
	    driver_library_is_ours(&status, s->shim) || !driver_library_is_library(path))
		return false;
	if (!is_lasting(path) && realpath(path, absolute) && is_same_file(&status, absolute))
		path = absolute;
	n = snprintf(s->path, s->size, "%s", path);
	return n > 0 && (size_t)n < s->size;
}

static bool accept_in(struct search *s, const char *folder, size_t length)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s/%s", (int)length, folder, s->name);

	return length && n > 0 && (size_t)n < sizeof(path) && accept(s, path);
}

static bool accept_in_list(struct search *s, const char *folders)
{
	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (accept_in(s, folders, length))
			return true;
		folders += length;
		folders += *folders != '\0';
	}
	return false;
}

/* Searches the places in order. *from: the place that has it. */
static bool search(struct search *s, const char **from)
{
	*from = "LD_LIBRARY_PATH";
	if (accept_in_list(s, secure_getenv("LD_LIBRARY_PATH")))
		return true;
	*from = "/etc/ld.so.cache";
	if (loader_cache_find(s->name, accept, s))
		return true;
	*from = "a usual place";
	for (size_t i = 0; i < sizeof(usual_folders) / sizeof(*usual_folders); i++) {
		if (accept_in(s, usual_folders[i], strlen(usual_folders[i])))
			return true;
	}
	return false;
}

bool driver_library_find(const char *shim, const char *asked, char *path, size_t size,
                         const char **from, bool *named_is_bad)
{
	struct search s = {DRIVER_LIBRARY, shim, path, size};
	const char *named = place_variable("SPILLWAY_DRIVER");

	*named_is_bad = false;
	*from = "SPILLWAY_DRIVER";
	if (named) {
		if (named[0] == '/' && accept(&s, named))
			return true;
		*named_is_bad = true;
	}
	*from = "the path the program named";
	if (asked && accept(&s, asked))
		return true;
	if (search(&s, from))
		return true;
	*from = "SPILLWAY_DRIVER, LD_LIBRARY_PATH, /etc/ld.so.cache and the usual places";
	return false;
}

/*
 * Returns whether a name is one under which drivers are installed: "libcuda.so", "libcuda.so.1",
 * "libcuda.so.1.1", "libcuda.so.580.65.06".
 */
static bool is_driver_name(const char *file)
{
	static const char stem[] = "libcuda.so";
	const char *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file;
	const char *rest = name + sizeof(stem) - 1;

	if (strncmp(name, stem, sizeof(stem) - 1) != 0)
		return false;
	return *rest == '\0' || (*rest == '.' && rest[1] >= '0' && rest[1] <= '9' &&
	                         rest[strspn(rest, ".0123456789")] == '\0');
}

static bool driver_library_is_named(const char *file)
{
	char target[PATH_MAX];

	return strcmp(file, DRIVER_LIBRARY) == 0 || is_driver_name(file) ||
	       /* Most files are no links; those that are get resolved. */
	       (strchr(file, '/') && readlink(file, target, 1) > 0 && realpath(file, target) &&
	        is_driver_name(target));
}

struct elf {
	int fd;
	ElfW(Ehdr) header;
	ElfW(Phdr) part[64];
};

static bool elf_read(const struct elf *elf, void *into, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && pread(elf->fd, into, size, (off_t)offset) == (ssize_t)size;
}

/* Returns whether the text at this address of the library is this one. */
static bool elf_has_text(const struct elf *elf, uint64_t address, const char *text)
{
	char found[32];

	for (int i = 0; i < elf->header.e_phnum; i++) {
		const ElfW(Phdr) *part = &elf->part[i];
		uint64_t at = address - part->p_vaddr;

		if (part->p_type == PT_LOAD && at < part->p_filesz)
			return elf_read(elf, found, strlen(text) + 1, part->p_offset + at) &&
			       memcmp(found, text, strlen(text) + 1) == 0;
	}
	return false;
}

/*
 * Returns whether it is a library for this machine that is known by this name. Every file that the
 * program opens by its path is asked, so it takes four reads.
 */
static bool elf_is_known_as(struct elf *elf, const char *name)
{
	enum { MOST = 128 };
	ElfW(Dyn) entries[MOST];
	const ElfW(Ehdr) *header = &elf->header;
	uint64_t texts = 0, known_as = 0, offset = 0, count = 0;

	if (!elf_read(elf, &elf->header, sizeof elf->header, 0) ||
	    memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phnum > 64 ||
	    !elf_read(elf, elf->part, header->e_phnum * sizeof *elf->part, header->e_phoff))
		return false;
	for (int i = 0; i < header->e_phnum; i++)
		if (elf->part[i].p_type == PT_DYNAMIC) {
			offset = elf->part[i].p_offset;
			count = elf->part[i].p_filesz / sizeof(ElfW(Dyn));
		}
	if (count > MOST)
		count = MOST;
	if (!elf_read(elf, entries, count * sizeof(*entries), offset))
		return false;
	for (uint64_t n = 0; n < count && entries[n].d_tag != DT_NULL; n++) {
		if (entries[n].d_tag == DT_STRTAB)
			texts = entries[n].d_un.d_ptr;
		else if (entries[n].d_tag == DT_SONAME)
			known_as = entries[n].d_un.d_val;
	}
	return texts && known_as && elf_has_text(elf, texts + known_as, name);
}

static bool driver_library_is_copy(const char *path)
{
	struct elf elf;
	int cancel;
	bool is;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	elf.fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	is = elf.fd >= 0 && elf_is_known_as(&elf, DRIVER_LIBRARY);
	if (elf.fd >= 0)
		close(elf.fd);
	pthread_setcancelstate(cancel, NULL);
	return is;
}

bool driver_library_is_asked(const char *file)
{
	return driver_library_is_named(file) || (strchr(file, '/') && driver_library_is_copy(file));
}

bool driver_library_locate(const char *file, char *path, size_t size)
{
	struct search s = {file, NULL, path, size};
	const char *from;

	return strchr(file, '/') ? accept(&s, file) : search(&s, &from);
}
