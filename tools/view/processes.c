/* SPDX-License-Identifier: MIT */
/* Processes of the machine. */
#include "tools/view/processes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "tools/view/tool.h"

static FILE *open_of(pid_t process, const char *file)
{
	char *path = text("/proc/%d/%s", (int)process, file);
	FILE *stream = fopen(path, "re");

	free(path);
	return stream;
}

pid_t process_inside(pid_t process)
{
	FILE *status = open_of(process, "status");
	char line[256];
	pid_t inside = 0;

	while (status && fgets(line, sizeof line, status)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (char *at = line + 6, *end; (int)strtol(at, &end, 10) > 0 && end != at;
		     at = end)
			inside = (pid_t)strtol(at, NULL, 10);
	}
	if (status)
		fclose(status);
	return inside;
}

/* Reads when it started; no other of this number did so then. */
static bool read_start(pid_t process, uint64_t *started)
{
	enum { FIELDS = 20 }; /* from behind the command, in parentheses, to the time */
	FILE *stat = open_of(process, "stat");
	char line[1024] = "";
	const char *at;

	if (!stat)
		return false;
	at = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
	fclose(stat);
	for (int field = 0; at && field < FIELDS; field++)
		at = strchr(at + 1, ' ');
	*started = at ? strtoull(at + 1, NULL, 10) : 0;
	return at != NULL;
}

static void processes_read_command(pid_t process, char *command, size_t size)
{
	FILE *line = open_of(process, "cmdline");
	size_t length = line ? fread(command, 1, size - 1, line) : 0;

	while (length && !command[length - 1])
		length--;
	for (size_t i = 0; i < length; i++)
		if (!command[i])
			command[i] = ' ';
	command[length] = '\0';
	printable(command);
	if (line)
		fclose(line);
}

/* Returns whether two paths lead to one file. */
static bool is_one_file(const char *a, const char *b)
{
	struct stat one, other;

	return file_status(a, &one) == 0 && file_status(b, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Returns whether it runs the program that probes drivers. Its name alone would be no proof. */
static bool is_probe(pid_t process)
{
	static const char *const places[] = {"lib", "../lib/spillway"};
	char own[PATH_MAX], *program = text("/proc/%d/exe", (int)process);
	bool found = false;

	if (!realpath("/proc/self/exe", own))
		*own = '\0';
	if (strrchr(own, '/'))
		*strrchr(own, '/') = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
		char *path = text("%s/%s/driver-probe", own, places[i]);

		found = is_one_file(program, path);
		free(path);
	}
	free(program);
	return found;
}

bool process_look(pid_t process, struct process_seen *seen)
{
	char *folder = text("/proc/%d", (int)process);
	struct stat found;
	bool is_there = file_status(folder, &found) == 0;

	free(folder);
	*seen = (struct process_seen){.owner = is_there ? found.st_uid : 0};
	if (!is_there || !read_start(process, &seen->started))
		return false;
	seen->inside = process_inside(process);
	seen->is_probe = is_probe(process);
	processes_read_command(process, seen->command, sizeof seen->command);
	return true;
}
