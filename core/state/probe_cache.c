/* SPDX-License-Identifier: MIT */
/*
 * Reading the cache of the driver's probe. Rules: runs inside the user's process; a file that
 * another user may have put there, or may write to, is never read.
 */
#include "core/state/probe_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/own_file.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

#define MODULE_VERSION "/sys/module/nvidia/version"

static const char *const question_names[PROBE_QUESTIONS] = {"host", "copy", "node", "mixed",
                                                            "unmap"};

const char *probe_question_name(enum probe_question question)
{
	return question_names[question];
}

void probe_cache_key(int version, const char *device, char *key, size_t size)
{
	char boot[SEGMENT_BOOT_ID_MAX], module[32] = "";

	segment_read_boot_id(boot);
	segment_read_line(MODULE_VERSION, module, sizeof(module) - 1);
	module[strcspn(module, "\n")] = '\0';
	snprintf(key, size, "boot %s driver %d module %s device %.63s", boot, version,
	         *module ? module : "-", device);
	for (char *c = key; *c; c++)
		if (*c == '\n' || *c == ':' || *c == ',')
			*c = ' ';
}

const char *probe_cache_path(enum probe_place place, char *path, size_t size)
{
	char directory[PATH_MAX];

	if (place == PROBE_OF_ROOT)
		directory_of_node(directory, sizeof(directory));
	else
		directory_path(directory, sizeof(directory));
	snprintf(path, size, "%.*s/" PROBE_CACHE, DIRECTORY_MAX, directory);
	return path;
}

/* Opens root's cache, in a directory that all users may write to: its own owner and mode count. */
static int probe_open_of_root(void)
{
	char path[PATH_MAX];
	struct stat found;
	int fd = open(probe_cache_path(PROBE_OF_ROOT, path, sizeof(path)),
	              O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (file_status_of(fd, &found) != 0)
		error = -errno;
	else if (!S_ISREG(found.st_mode))
		error = -EINVAL;
	/* A second name may be one that another user gave to an old file of root's. */
	else if (found.st_uid != 0 || found.st_mode & (S_IWGRP | S_IWOTH) || found.st_nlink > 1)
		error = -EPERM;
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int probe_open_of_user(void)
{
	int directory = directory_open(false, NULL, 0), fd;
	struct stat found;

	if (directory < 0)
		return directory;
	fd = own_file_open(directory, PROBE_CACHE, O_RDONLY, 0);
	close(directory);
	if (fd >= 0 && (file_status_of(fd, &found) != 0 || found.st_mode & (S_IWGRP | S_IWOTH))) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int probe_cache_read(enum probe_place place, char *text)
{
	int fd = place == PROBE_OF_ROOT ? probe_open_of_root() : probe_open_of_user();
	ssize_t got;

	*text = '\0';
	if (fd < 0)
		return fd;
	got = read(fd, text, PROBE_CACHE_MAX - 1);
	close(fd);
	if (got < 0)
		return -EIO;
	text[got] = '\0';
	return 0;
}

int probe_answer_read(const char *text)
{
	char *end;
	long value;

	if (strcmp(text, "crash") == 0)
		return PROBE_CRASHED;
	if (*text < '0' || *text > '9')
		return PROBE_UNKNOWN;
	value = strtol(text, &end, 10);
	return *end || value > INT_MAX ? PROBE_UNKNOWN : (int)value;
}

/* Reads "host 0 copy crash ..." to the end of the line. Returns whether all of it is there. */
static bool probe_read_answers(char *line, struct probe_answers *found)
{
	char *rest = line, *name, *value;

	for (int i = 0; i < PROBE_QUESTIONS; i++) {
		name = strtok_r(NULL, " ", &rest);
		value = strtok_r(NULL, " ", &rest);
		if (!name || !value || strcmp(name, question_names[i]) != 0)
			return false;
		found->of[i] = probe_answer_read(value);
		if (found->of[i] == PROBE_UNKNOWN)
			return false;
	}
	return *rest == '\0';
}

/* Reads "1: crash" to the end of the line. */
static void probe_read_node(const char *line, struct probe_answers *found)
{
	char *end;
	unsigned long node = strtoul(line, &end, 10);

	if (end != line && node < PROBE_NODES && strncmp(end, ": ", 2) == 0 &&
	    found->numa[node] == PROBE_UNKNOWN)
		found->numa[node] = probe_answer_read(end + 2);
}

bool probe_cache_find(const char *text, const char *key, struct probe_answers *found)
{
	static const char of_device[] = ": ", of_node[] = ", NUMA node ";
	size_t length = strlen(key);
	char line[PROBE_LINE_MAX];
	bool is_known = false;
	const char *end;

	for (int i = 0; i < PROBE_QUESTIONS; i++)
		found->of[i] = PROBE_UNKNOWN;
	for (int i = 0; i < PROBE_NODES; i++)
		found->numa[i] = PROBE_UNKNOWN;
	/* A last line without its end is one that was cut. */
	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *after = line + length;

		if ((size_t)(end - text) <= length || (size_t)(end - text) >= sizeof(line))
			continue;
		memcpy(line, text, (size_t)(end - text));
		line[end - text] = '\0';
		if (strncmp(line, key, length) != 0)
			continue;
		if (strncmp(after, of_node, sizeof(of_node) - 1) == 0)
			probe_read_node(after + sizeof(of_node) - 1, found);
		else if (!is_known && strncmp(after, of_device, sizeof(of_device) - 1) == 0)
			is_known = probe_read_answers(line + length + sizeof(of_device) - 1, found);
	}
	return is_known;
}

bool probe_cache_look_up(const char *key, struct probe_answers *found, enum probe_place *place)
{
	char text[PROBE_CACHE_MAX];
	struct probe_answers further;
	bool is_known = false;
	int kept = errno;

	for (int i = 0; i < PROBE_PLACES; i++) {
		if (probe_cache_read((enum probe_place)i, text) != 0 ||
		    !probe_cache_find(text, key, is_known ? &further : found))
			continue;
		if (!is_known && place)
			*place = (enum probe_place)i;
		/* Root's probe may have had fewer nodes than this process. */
		for (int node = 0; is_known && node < PROBE_NODES; node++)
			if (found->numa[node] == PROBE_UNKNOWN)
				found->numa[node] = further.numa[node];
		is_known = true;
	}
	errno = kept;
	return is_known;
}
