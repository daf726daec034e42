/* SPDX-License-Identifier: MIT */
/* Files of a job: written whole by the prolog, bound by tasks, removed by the epilog. */
#include "tools/slurm/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/driver_library.h"

/* Directories are removed where they are that lie no deeper; deeper ones in so many passes. */
enum { DEPTH_MAX = 16, PASSES = 1000 };

/* Writes the directory's name with each %n as the node's, as in Slurm's own settings of paths. */
static bool expand(const char *directory, char *path, size_t size)
{
	const char *node = getenv("SLURMD_NODENAME");
	size_t used = 0;

	for (const char *c = directory; *c && used + 1 < size; c++) {
		bool is_node = c[0] == '%' && c[1] == 'n';

		if (is_node)
			used += (size_t)snprintf(path + used, size - used, "%s", node ? node : "");
		else
			path[used++] = *c;
		c += is_node;
	}
	if (used + 1 >= size)
		return false;
	path[used] = '\0';
	return true;
}

void files_name(const struct arguments *arguments, uint32_t job, struct job_files *files)
{
	char above[sizeof files->directory - 16];

	*files->directory = '\0'; /* so long a name is nowhere */
	if (expand(arguments->directory, above, sizeof above))
		snprintf(files->directory, sizeof files->directory, "%s/%u", above, job);
	snprintf(files->ini, sizeof files->ini, "%s/spillway.ini", files->directory);
	snprintf(files->preload, sizeof files->preload, "%s/ld.so.preload", files->directory);
	snprintf(files->state, sizeof files->state, "%s/state", files->directory);
	snprintf(files->unlimited, sizeof files->unlimited, "%s/unlimited", files->directory);
	snprintf(files->refused, sizeof files->refused, "%s/refused", files->directory);
}

static bool files_fail(const char *path, char *message, size_t size)
{
	snprintf(message, size, "%s: %s", path, strerror(errno));
	return false;
}

/* Makes a directory that all users may look into, with any umask of slurmd. */
static bool files_make(const char *path)
{
	if (mkdir(path, 0755) == 0)
		return chmod(path, 0755) == 0;
	return errno == EEXIST;
}

/* Makes a directory and those above it. */
static bool files_make_all(const char *path)
{
	char above[PATH_MAX / 2];

	snprintf(above, sizeof above, "%s", path);
	for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (!files_make(above))
			return false;
		*slash = '/';
	}
	return files_make(above);
}

/* Checks that only root can have put files into the directory. */
static bool files_is_roots(const char *path, char *message, size_t size)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return files_fail(path, message, size);
	if (S_ISDIR(status.st_mode) && status.st_uid == 0 && !(status.st_mode & 022))
		return true;
	snprintf(message, size, "%s: expected a directory that root alone writes to", path);
	return false;
}

bool files_begin(const struct job_files *files, char *message, size_t size)
{
	if (!*files->directory) {
		snprintf(message, size, "plugstack.conf: dir=: expected a shorter path");
		return false;
	}
	files_remove(files); /* of a job of that number without an epilog */
	if (!files_make_all(files->directory))
		return files_fail(files->directory, message, size);
	return files_is_roots(files->directory, message, size);
}

/* Opens PATH.new, which close_whole() gives its name. */
static FILE *files_open_new(const char *path, char fresh[PATH_MAX + 8])
{
	int file;

	snprintf(fresh, PATH_MAX + 8, "%s.new", path);
	file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return file < 0 ? NULL : fdopen(file, "w");
}

static bool close_whole(FILE *out, const char *fresh, const char *path, char *message, size_t size)
{
	bool is_whole = !ferror(out);

	fchmod(fileno(out), 0644); /* with any umask of slurmd */
	is_whole &= fclose(out) == 0;
	if (is_whole && rename(fresh, path) == 0)
		return true;
	files_fail(path, message, size);
	unlink(fresh);
	return false;
}

static bool write_ini(const struct job_files *files, const struct job_settings *settings,
                      char *message, size_t size)
{
	char fresh[PATH_MAX + 8];
	FILE *out = files_open_new(files->ini, fresh);
	bool is_right;

	if (!out)
		return files_fail(fresh, message, size);
	is_right = settings_write(out, settings, files->state, message, size);
	if (is_right && fflush(out) == 0)
		is_right = settings_check(fresh, message, size);
	if (is_right)
		return close_whole(out, fresh, files->ini, message, size);
	fclose(out);
	unlink(fresh);
	return false;
}

/* --- the loader's preload list --- */

/*
 * Copies the machine's list without the shim, a library in each line. As the loader reads it: names
 * with white space or colons between, and remarks from a # to the end of their line.
 */
static void copy_list(FILE *list, FILE *out)
{
	char *line = NULL, *rest, *name;
	size_t size = 0;

	while (list && getline(&line, &size, list) > 0) {
		line[strcspn(line, "#")] = '\0';
		for (name = strtok_r(line, ": \t\v\f\r\n", &rest); name;
		     name = strtok_r(NULL, ": \t\v\f\r\n", &rest)) {
			const char *slash = strrchr(name, '/');

			if (strncmp(slash ? slash + 1 : name, "libspillway", 11) != 0)
				fprintf(out, "%s\n", name);
		}
	}
	free(line);
}

static bool write_preload(const struct job_files *files, const struct arguments *arguments,
                          char *message, size_t size)
{
	static const char *const shim[] = {SHIM_LIBRARY, "libspillway-alias.so"};
	char fresh[PATH_MAX + 8], library[PATH_MAX];
	FILE *out = files_open_new(files->preload, fresh), *list = fopen(MACHINE_PRELOAD, "re");
	bool is_there = true;

	if (out)
		copy_list(list, out);
	if (list)
		fclose(list);
	if (!out)
		return files_fail(fresh, message, size);
	for (size_t i = 0; i < sizeof shim / sizeof *shim && is_there; i++) {
		snprintf(library, sizeof library, "%s/%s", arguments->library, shim[i]);
		is_there = access(library, R_OK) == 0;
		fprintf(out, "%s\n", library);
	}
	if (is_there) {
		/* Root makes it where the driver is newer (spillway doctor --companion). */
		snprintf(library, sizeof library, "%s/%s", arguments->library, COMPANION_LIBRARY);
		if (access(library, R_OK) == 0)
			fprintf(out, "%s\n", library);
		return close_whole(out, fresh, files->preload, message, size);
	}
	files_fail(library, message, size);
	fclose(out);
	unlink(fresh);
	return false;
}

bool files_write(const struct job_files *files, const struct arguments *arguments,
                 const struct job_settings *settings, char *message, size_t size)
{
	if (mkdir(files->state, 0700) != 0 || chown(files->state, settings->user, (gid_t)-1) != 0)
		return files_fail(files->state, message, size);
	if (write_preload(files, arguments, message, size) &&
	    write_ini(files, settings, message, size))
		return true;
	unlink(files->preload);
	return false;
}

bool files_leave_free(const struct job_files *files, char *message, size_t size)
{
	char fresh[PATH_MAX + 8];
	FILE *out = files_open_new(files->unlimited, fresh);

	return out ? close_whole(out, fresh, files->unlimited, message, size)
	           : files_fail(fresh, message, size);
}

void files_refuse(const struct job_files *files, const char *reason)
{
	int file =
	    open(files->refused, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (file < 0 || write(file, reason, strlen(reason)) < 0)
		slurm_error("spillway: %s: %s", files->refused, strerror(errno));
	if (file >= 0)
		close(file);
}

enum files_found files_look(const struct job_files *files, char *message, size_t size)
{
	FILE *refused;

	if (access(files->directory, F_OK) != 0)
		snprintf(message, size,
		         "%s: the prolog has not run; slurm.conf needs PrologFlags=Alloc",
		         files->directory);
	if (access(files->directory, F_OK) != 0 || !files_is_roots(files->directory, message, size))
		return FILES_REFUSED;
	refused = fopen(files->refused, "re");
	if (!refused && access(files->ini, F_OK) == 0)
		return FILES_LIMIT;
	if (!refused && access(files->unlimited, F_OK) == 0)
		return FILES_LEAVE_FREE;
	if (!refused || !fgets(message, (int)size, refused))
		snprintf(message, size, "%s: the prolog did not come to its end", files->directory);
	if (refused)
		fclose(refused);
	return FILES_REFUSED;
}

/* --- removing --- */

struct removal {
	int top;
	unsigned raised; /* directories that were put there because they lay deep */
};

static void remove_in(struct removal *removal, int directory, int depth);

/* Removes a file, or a directory with its contents; one that lies too deep is only raised. */
static void remove_at(struct removal *removal, int directory, const char *name, int depth)
{
	char raised[32];
	int inner;

	if (unlinkat(directory, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	if (depth == DEPTH_MAX) {
		snprintf(raised, sizeof raised, "raised-%u", removal->raised);
		removal->raised += renameat(directory, name, removal->top, raised) == 0;
		return;
	}
	inner = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (inner >= 0)
		remove_in(removal, inner, depth + 1);
	unlinkat(directory, name, AT_REMOVEDIR);
}

/* Removes the contents of a directory, and closes it. Its user puts nothing there any more. */
static void remove_in(struct removal *removal, int directory, int depth)
{
	DIR *listing;

	if (fchown(directory, 0, 0) == 0)
		fchmod(directory, 0700);
	listing = fdopendir(directory);
	if (!listing) {
		close(directory);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(listing));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_at(removal, directory, entry->d_name, depth);
	closedir(listing);
}

/*
 * Part of it is a user's: its processes may put links there meanwhile, which are not followed, and
 * directories of any depth.
 */
void files_remove(const struct job_files *files)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct removal removal = {.top = *files->directory ? open(files->directory, flags) : -1};
	unsigned before;
	int again;

	if (removal.top < 0) {
		unlink(files->directory); /* it is no directory, if it is anything */
		return;
	}
	for (int pass = 0; pass < PASSES; pass++) {
		before = removal.raised;
		again = openat(removal.top, ".", flags);
		if (again >= 0)
			remove_in(&removal, again, 0);
		if (removal.raised == before)
			break;
	}
	close(removal.top);
	rmdir(files->directory);
}

void files_make_targets(void)
{
	static const char *const targets[] = {MACHINE_INI, MACHINE_PRELOAD};

	if (mkdir("/etc/spillway", 0755) != 0 && errno != EEXIST)
		slurm_error("spillway: /etc/spillway: %s", strerror(errno));
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
		int file = open(targets[i], O_RDONLY | O_CREAT | O_CLOEXEC, 0644);

		if (file < 0)
			slurm_error("spillway: %s: %s", targets[i], strerror(errno));
		else
			close(file);
	}
}
