/* SPDX-License-Identifier: MIT */
/* The loader's cache. Rules: runs inside the user's process too; believes nothing of the file. */
#include "core/base/loader_cache.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static bool search(const char *data, size_t size, const char *name,
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

bool loader_cache_find(const char *name, bool (*accept)(void *cookie, const char *path),
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
			found = search(data, (size_t)length, name, accept, cookie);
			munmap(data, (size_t)length);
		}
	}
	close(fd);
	return found;
}
