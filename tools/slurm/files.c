/* Files of a job: written whole by the prolog, bound by tasks, removed by the epilog. */
#include "tools/slurm/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 16 }; /* of directories that are removed */

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
	snprintf(files->refused, sizeof files->refused, "%s/refused", files->directory);
}

static bool fail(const char *path, char *message, size_t size)
{
	snprintf(message, size, "%s: %s", path, strerror(errno));
	return false;
}

/* Makes one directory and those above it, everybody's to look into. */
static bool make_all(const char *path)
{
	char above[PATH_MAX / 2];

	snprintf(above, sizeof above, "%s", path);
	for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(above, 0755) != 0 && errno != EEXIST)
			return false;
		*slash = '/';
	}
	return mkdir(above, 0755) == 0 || errno == EEXIST;
}

bool files_begin(const struct job_files *files, char *message, size_t size)
{
	struct stat status;

	files_remove(files); /* of a job of that number whose epilog never ran */
	if (!make_all(files->directory) || lstat(files->directory, &status) != 0)
		return fail(files->directory, message, size);
	if (S_ISDIR(status.st_mode) && status.st_uid == 0 && !(status.st_mode & 022))
		return true;
	snprintf(message, size, "%s: expected a directory that root alone writes to",
	         files->directory);
	return false;
}

/* --- the settings --- */

/* The machine's settings are copied item by item, but for those that the job's replace. */
struct copy {
	FILE *out;
	const struct job_settings *settings;
	char section[128];                  /* the one that was begun */
	bool is_enforced;                   /* by the machine's own file */
	bool has_ceiling[JOB_OPTION_COUNT]; /* [ceiling] names it */
	char *most[JOB_OPTION_COUNT];       /* what [gpu] sets, which is the most where enforced */
};

static void emit(struct copy *copy, const char *section, const char *key, const char *value)
{
	if (strcmp(copy->section, section) != 0) {
		fprintf(copy->out, "[%s]\n", section);
		snprintf(copy->section, sizeof copy->section, "%s", section);
	}
	fprintf(copy->out, "%s = %s\n", key, value);
}

/* Returns the option that sets a key, JOB_OPTION_COUNT if none. */
static int option_of(const char *key)
{
	int i = 0;

	while (i < JOB_OPTION_COUNT &&
	       strcmp(config_key_name(option_key((enum job_option)i)), key) != 0)
		i++;
	return i;
}

static bool is_every_gpu(const char *section)
{
	return strcmp(section, "gpu") == 0;
}

/* Looks what the machine's file says of what the job may set. */
static int survey(void *cookie, const char *section, const char *key, const char *value)
{
	struct copy *copy = cookie;
	int option = option_of(key);

	if (strcmp(section, "ceiling") == 0 && strcmp(key, "enforce") == 0)
		copy->is_enforced = strcasecmp(value, "yes") == 0 || strcmp(value, "1") == 0 ||
		                    strcasecmp(value, "true") == 0 || strcasecmp(value, "on") == 0;
	if (option == JOB_OPTION_COUNT)
		return 1;
	if (strcmp(section, "ceiling") == 0)
		copy->has_ceiling[option] = true;
	else if (is_every_gpu(section) && !copy->most[option])
		copy->most[option] = strdup(value);
	return 1;
}

static int keep(void *cookie, const char *section, const char *key, const char *value)
{
	struct copy *copy = cookie;
	int option = option_of(key);

	if (strcmp(section, "job") == 0 && (strcmp(key, "name") == 0 || strcmp(key, "labels") == 0))
		return 1;
	if (strcmp(section, "ceiling") == 0 &&
	    (strcmp(key, "enforce") == 0 || strcmp(key, "required") == 0 ||
	     strcmp(key, "per") == 0))
		return 1;
	if (strncmp(section, "gpu", 3) == 0 && option < JOB_OPTION_COUNT &&
	    copy->settings->value[option])
		return 1;
	emit(copy, section, key, value);
	return 1;
}

static bool copy_settings(struct copy *copy, const struct job_files *files, char *message,
                          size_t size)
{
	const struct job_settings *settings = copy->settings;
	char name[32];
	int line = ini_parse(MACHINE_INI, survey, copy);

	if (line == 0)
		line = ini_parse(MACHINE_INI, keep, copy);
	if (line > 0) {
		snprintf(message, size, "%s:%d: expected a section or key = value", MACHINE_INI,
		         line);
		return false;
	}
	snprintf(name, sizeof name, "slurm-%u", settings->id);
	emit(copy, "job", "name", name);
	if (settings->labels && *settings->labels)
		emit(copy, "job", "labels", settings->labels);
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		if (settings->value[i])
			emit(copy, "gpu", config_key_name(option_key((enum job_option)i)),
			     settings->value[i]);
	if (settings->is_weight && settings->value[OPTION_share])
		emit(copy, "gpu", "share_policy", "weight");
	emit(copy, "ceiling", "enforce", "yes");
	emit(copy, "ceiling", "required", "yes");
	emit(copy, "ceiling", "state_dir", files->state);
	/* What the machine's file set was the most where it was enforced. */
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		if (copy->is_enforced && copy->most[i] && settings->value[i] &&
		    !copy->has_ceiling[i])
			emit(copy, "ceiling", config_key_name(option_key((enum job_option)i)),
			     copy->most[i]);
	return true;
}

/* Opens PATH.new, which close_whole() gives its name. */
static FILE *open_new(const char *path, char fresh[PATH_MAX + 8])
{
	int file;

	snprintf(fresh, PATH_MAX + 8, "%s.new", path);
	file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return file < 0 ? NULL : fdopen(file, "w");
}

static bool close_whole(FILE *out, const char *fresh, const char *path, char *message, size_t size)
{
	bool is_whole = !ferror(out);

	fchmod(fileno(out), 0644); /* whatever slurmd's umask is */
	is_whole &= fclose(out) == 0;
	if (is_whole && rename(fresh, path) == 0)
		return true;
	fail(path, message, size);
	unlink(fresh);
	return false;
}

static bool write_ini(const struct job_files *files, const struct job_settings *settings,
                      char *message, size_t size)
{
	char fresh[PATH_MAX + 8];
	struct copy copy = {.out = open_new(files->ini, fresh), .settings = settings};
	bool is_right;

	if (!copy.out)
		return fail(fresh, message, size);
	is_right = copy_settings(&copy, files, message, size);
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		free(copy.most[i]);
	if (is_right)
		return close_whole(copy.out, fresh, files->ini, message, size);
	fclose(copy.out);
	unlink(fresh);
	return false;
}

/* --- the list of what the loader preloads --- */

static bool write_preload(const struct job_files *files, const struct arguments *arguments,
                          char *message, size_t size)
{
	static const char *const shim[] = {"libspillway.so", "libspillway-alias.so"};
	char fresh[PATH_MAX + 8], line[PATH_MAX];
	FILE *out = open_new(files->preload, fresh), *machines = fopen(MACHINE_PRELOAD, "re");
	bool is_there = true;

	if (!out) {
		if (machines)
			fclose(machines);
		return fail(fresh, message, size);
	}
	while (machines && fgets(line, sizeof line, machines))
		if (!strstr(line, "libspillway"))
			fputs(line, out);
	if (machines)
		fclose(machines);
	for (size_t i = 0; i < sizeof shim / sizeof *shim && is_there; i++) {
		snprintf(line, sizeof line, "%s/%s", arguments->library, shim[i]);
		is_there = access(line, R_OK) == 0;
		fprintf(out, "%s\n", line);
	}
	if (is_there)
		return close_whole(out, fresh, files->preload, message, size);
	fail(line, message, size);
	fclose(out);
	unlink(fresh);
	return false;
}

bool files_write(const struct job_files *files, const struct arguments *arguments,
                 const struct job_settings *settings, char *message, size_t size)
{
	if (mkdir(files->state, 0700) != 0 ||
	    chown(files->state, settings->user, settings->group) != 0)
		return fail(files->state, message, size);
	if (write_preload(files, arguments, message, size) &&
	    write_ini(files, settings, message, size))
		return true;
	unlink(files->preload);
	return false;
}

void files_refuse(const struct job_files *files, const char *reason)
{
	int file =
	    open(files->refused, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (file < 0) {
		slurm_error("spillway: %s: %s", files->refused, strerror(errno));
		return;
	}
	if (write(file, reason, strlen(reason)) < 0)
		slurm_error("spillway: %s: %s", files->refused, strerror(errno));
	close(file);
}

/* What a step's words are compared with. */
struct asked {
	const char *const *value;
	int differing;
};

static int compare(void *cookie, const char *section, const char *key, const char *value)
{
	struct asked *asked = cookie;
	int option = option_of(key);

	if (is_every_gpu(section) && option < JOB_OPTION_COUNT && asked->value[option] &&
	    strcmp(asked->value[option], value) != 0)
		asked->differing = option;
	return 1;
}

int files_differ(const struct job_files *files, const char *const value[JOB_OPTION_COUNT])
{
	struct asked asked = {value, JOB_OPTION_COUNT};

	ini_parse(files->ini, compare, &asked);
	return asked.differing;
}

static void remove_in(int directory, int depth);

/* Removes a file, or a directory with what is in it. */
static void remove_at(int directory, const char *name, int depth)
{
	int inner;

	if (unlinkat(directory, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	inner = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (inner >= 0 && depth < DEPTH_MAX)
		remove_in(inner, depth + 1);
	else if (inner >= 0)
		close(inner);
	unlinkat(directory, name, AT_REMOVEDIR); /* what stays the next epilog may remove */
}

/* Removes what is in a directory, and closes it. */
static void remove_in(int directory, int depth)
{
	DIR *listing = fdopendir(directory);

	if (!listing) {
		close(directory);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(listing));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_at(directory, entry->d_name, depth);
	closedir(listing);
}

/* Part of it is a user's, whose processes may put links there meanwhile: none is followed. */
void files_remove(const struct job_files *files)
{
	if (*files->directory)
		remove_at(AT_FDCWD, files->directory, 0);
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
