/* SPDX-License-Identifier: MIT */
#include "tools/doctor/companion.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/driver_library.h"
#include "core/base/hash.h"
#include "tools/doctor/paths.h"
#include "tools/view/cache.h"
#include "tools/view/tool.h"
#include "tools/wheels/library_read.h"
#include "tools/wheels/library_write.h"

#define COMPANION_FORMAT "1" /* another one makes all files again */

/* Names within a library's file, which stays mapped for them. */
struct name_list {
	const char **name;
	int count, room;
	struct library library;
};

/* Takes the driver's functions alone: a name of the C library would stand before glibc's own. */
static void companion_take_name(void *cookie, const char *name)
{
	struct name_list *list = cookie;

	if (strncmp(name, "cudbg", 5) != 0 &&
	    !(strncmp(name, "cu", 2) == 0 && isupper((unsigned char)name[2])))
		return;
	if (list->count == list->room) {
		list->name = grow(list->name, list->room + 1023, sizeof *list->name);
		list->room += 1024;
	}
	list->name[list->count++] = name;
}

static int companion_compare(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Returns the functions that a library exports, sorted; none where it cannot be read. */
static struct name_list companion_names_of(const char *path)
{
	struct name_list list = {0};

	if (!library_map(&list.library, path))
		return (struct name_list){0};
	library_exported(&list.library, companion_take_name, &list);
	if (list.count)
		qsort(list.name, (size_t)list.count, sizeof *list.name, companion_compare);
	return list;
}

static void companion_free(struct name_list *list)
{
	if (list->library.bytes)
		library_unmap(&list->library);
	free(list->name);
}

static bool companion_has(const struct name_list *list, const char *name)
{
	return list->count && bsearch(&name, list->name, (size_t)list->count, sizeof *list->name,
	                              companion_compare);
}

/* Returns whether the file has all functions. */
static bool companion_serves(const struct companion *companion, const char *path)
{
	struct name_list list = companion_names_of(path);
	bool has_all = true;

	for (int i = 0; i < companion->count && has_all; i++)
		has_all = companion_has(&list, companion->names[i]);
	companion_free(&list);
	return has_all;
}

/* Fills in the path in the user's cache; "" where there is none. */
static void companion_own_path(const struct companion *companion, char path[PATH_MAX])
{
	uint64_t hash = hash_text(HASH_NOTHING, COMPANION_FORMAT);
	char *name;

	for (int i = 0; i < companion->count; i++)
		hash = hash_word(hash_text(hash, companion->names[i]), ' ');
	name = text("libspillway-companion-%016" PRIx64 ".so", hash);
	cache_path(path, name);
	free(name);
}

bool companion_look(struct companion *companion, const char *shim, const char *driver)
{
	struct name_list ours = companion_names_of(shim), theirs = companion_names_of(driver);
	char own[PATH_MAX];

	*companion = (struct companion){0};
	for (int i = 0; i < theirs.count && ours.count; i++) {
		if (companion_has(&ours, theirs.name[i]))
			continue;
		companion->names = grow(companion->names, companion->count, sizeof(char *));
		companion->names[companion->count++] = text("%s", theirs.name[i]);
	}
	companion_free(&ours);
	companion_free(&theirs);
	if (!companion->count)
		return false;
	snprintf(companion->shared, PATH_MAX, "%.*s%s", (int)(paths_base(shim) - shim), shim,
	         COMPANION_LIBRARY);
	companion_own_path(companion, own);
	if (companion_serves(companion, companion->shared))
		strcpy(companion->file, companion->shared);
	else if (*own && companion_serves(companion, own))
		strcpy(companion->file, own);
	return true;
}

/* Writes the file under another name first: a program that starts meanwhile finds a whole one. */
static bool companion_write(const struct companion *companion, const char *path)
{
	const struct library_form form = {.soname = COMPANION_LIBRARY,
	                                  .needed = DRIVER_LIBRARY,
	                                  .common = COMPANION_COMMON,
	                                  .keeps_arguments = true};
	struct library_function *functions = allocate((size_t)companion->count * sizeof *functions);
	char *fresh = text("%s.%d", path, (int)getpid());
	bool is_made;

	for (int i = 0; i < companion->count; i++)
		functions[i] =
		    (struct library_function){.name = companion->names[i], .version = ""};
	is_made = library_write(fresh, &form, functions, (size_t)companion->count) &&
	          rename(fresh, path) == 0;
	if (!is_made) {
		int reason = errno;

		unlink(fresh);
		errno = reason;
	}
	free(functions);
	free(fresh);
	return is_made;
}

/* Returns whether the loader may map the file; on a file system without programs it may not. */
static bool companion_may_be_mapped(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), reason;
	void *bytes =
	    fd < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	reason = errno;
	if (bytes != MAP_FAILED)
		munmap(bytes, 1);
	if (fd >= 0)
		close(fd);
	errno = reason;
	return bytes != MAP_FAILED;
}

bool companion_make(struct companion *companion, bool is_shared, char *message, size_t size)
{
	char path[PATH_MAX], *folder;
	bool is_made;

	if (is_shared)
		strcpy(path, companion->shared);
	else
		companion_own_path(companion, path);
	if (*companion->file && (!is_shared || strcmp(path, companion->file) == 0))
		return true;
	if (!*path) {
		snprintf(message, size,
		         "neither HOME nor XDG_CACHE_HOME names a folder for " COMPANION_LIBRARY);
		return false;
	}
	if (strpbrk(path, ": ")) {
		snprintf(message, size, "%s: LD_PRELOAD cannot hold a path with a space or a colon",
		         path);
		return false;
	}
	folder = text("%.*s", (int)(paths_base(path) - path - 1), path);
	is_made = cache_make_folders(folder) && companion_write(companion, path) &&
	          companion_may_be_mapped(path);
	free(folder);
	if (!is_made)
		snprintf(message, size, "%s: %s", path, strerror(errno));
	else
		strcpy(companion->file, path);
	return is_made;
}
