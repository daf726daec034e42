/*
 * Which libcuda.so.1 would be used: the same places in the same order as shim/driver_search.c,
 * which the tool does not link.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/driver.h"

#define LIBRARY "libcuda.so.1"

#if defined(__x86_64__)
#define MULTIARCH   "x86_64-linux-gnu"
#define CACHE_FLAGS 0x0303 /* ELF of glibc, x86-64 */
#else
#define MULTIARCH   "aarch64-linux-gnu"
#define CACHE_FLAGS 0x0a03
#endif

static const char *const usual_folders[] = {
    "/usr/lib/" MULTIARCH,
    "/lib/" MULTIARCH,
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    NULL,
};

/* glibc's cache as ldconfig writes it since 2.32 at the latest. */
struct cache_header {
	char magic[20]; /* "glibc-ld.so.cache1.1" */
	uint32_t libraries;
	uint32_t strings_size;
	uint32_t unused[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t name; /* both from the beginning of the header */
	uint32_t path;
	uint32_t os_version;
	uint64_t hardware;
};

static bool same_file(const char *a, const char *b)
{
	struct stat one, other;

	return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

static bool usable(const char *path, const char *shim)
{
	return access(path, R_OK) == 0 && !same_file(path, shim);
}

static bool in_folder(const char *folder, size_t length, const char *shim, char path[PATH_MAX])
{
	if (length == 0)
		return false;
	if (snprintf(path, PATH_MAX, "%.*s/" LIBRARY, (int)length, folder) >= PATH_MAX)
		return false;
	return usable(path, shim);
}

static bool in_search_path(const char *folders, const char *shim, char path[PATH_MAX])
{
	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (in_folder(folders, length, shim, path))
			return true;
		folders += length + (folders[length] != '\0');
	}
	return false;
}

/* The text at this offset of the cache, or "" when it does not end within. */
static const char *cache_text(const char *cache, size_t size, uint32_t offset)
{
	if (offset >= size || !memchr(cache + offset, '\0', size - offset))
		return "";
	return cache + offset;
}

static bool in_cache_image(const char *cache, size_t size, const char *shim, char path[PATH_MAX])
{
	struct cache_header header;

	if (size < sizeof header)
		return false;
	memcpy(&header, cache, sizeof header);
	if (memcmp(header.magic, "glibc-ld.so.cache1.1", sizeof header.magic) != 0 ||
	    header.libraries > (size - sizeof header) / sizeof(struct cache_entry))
		return false;
	for (uint32_t i = 0; i < header.libraries; i++) {
		struct cache_entry entry;

		memcpy(&entry, cache + sizeof header + i * sizeof entry, sizeof entry);
		if (entry.flags != CACHE_FLAGS ||
		    strcmp(cache_text(cache, size, entry.name), LIBRARY) != 0)
			continue;
		snprintf(path, PATH_MAX, "%s", cache_text(cache, size, entry.path));
		if (usable(path, shim))
			return true;
	}
	return false;
}

static bool in_cache(const char *shim, char path[PATH_MAX])
{
	int descriptor = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	struct stat status;
	bool found = false;

	if (descriptor < 0)
		return false;
	if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
		size_t size = (size_t)status.st_size;
		char *cache = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);

		if (cache != MAP_FAILED) {
			found = in_cache_image(cache, size, shim, path);
			munmap(cache, size);
		}
	}
	close(descriptor);
	return found;
}

bool driver_find(const char *shim, char path[PATH_MAX], const char **from)
{
	const char *given = getenv("SPILLWAY_DRIVER");

	*from = "SPILLWAY_DRIVER";
	if (given && *given == '/') {
		snprintf(path, PATH_MAX, "%s", given);
		if (usable(path, shim))
			return true;
	}
	*from = "LD_LIBRARY_PATH";
	if (in_search_path(getenv("LD_LIBRARY_PATH"), shim, path))
		return true;
	*from = "/etc/ld.so.cache";
	if (in_cache(shim, path))
		return true;
	*from = "a usual place";
	for (const char *const *folder = usual_folders; *folder; folder++)
		if (in_folder(*folder, strlen(*folder), shim, path))
			return true;
	*from = "SPILLWAY_DRIVER, LD_LIBRARY_PATH, /etc/ld.so.cache and the usual places";
	return false;
}
