/* SPDX-License-Identifier: MIT */
/* Making root's place for turns. Each thing that is made is said in a line. */
#include "tools/doctor/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/state/directory.h"
#include "tools/view/arguments.h"
#include "tools/view/tool.h"

#define SETUP_TMPFILES "/etc/tmpfiles.d/spillway-turns.conf"

enum { SETUP_DIRECTORY_MODE = 01777, SETUP_FILE_MODE = 0660 };

/* Never 0666: a user that may write a turn file may cut it short, which kills other users' jobs. */
static gid_t setup_find_group(const char *name)
{
	const struct group *group;

	if (!name || !*name)
		usage_error("--setup: which group's users may share the GPUs? Name it by --group, "
		            "such as --group gpu");
	group = getgrnam(name);
	if (group)
		return group->gr_gid;
	fail("--group '%s': there is no such group; make it by 'groupadd %s', and add users by "
	     "'usermod -aG %s USER'",
	     name, name, name);
}

static void setup_say(const struct setup *setup, const char *path, const char *what)
{
	printf("%s: %s%s\n", path, setup->is_dry ? "would be " : "", what);
}

static void setup_directory(const struct setup *setup, const char *path)
{
	struct stat found;

	if (file_status_itself(path, &found) == 0) {
		if (!S_ISDIR(found.st_mode) || found.st_uid != 0)
			fail("%s: expected a directory of root; remove it", path);
		if ((found.st_mode & 07777) == SETUP_DIRECTORY_MODE) {
			printf("%s: stands already\n", path);
			return;
		}
	} else if (!setup->is_dry && mkdir(path, 0700) != 0) {
		fail("%s: %s", path, strerror(errno));
	}
	if (!setup->is_dry && chmod(path, SETUP_DIRECTORY_MODE) != 0)
		fail("%s: %s", path, strerror(errno));
	setup_say(setup, path, "made, mode 1777");
}

/* Opens the file, made if it is missing. A user may have put anything there in its name. */
static int setup_open(const char *path, struct stat *found)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT)
		fd = open(path, flags | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || file_status_of(fd, found) != 0)
		fail("%s: %s; if it is not root's, remove it", path, strerror(errno));
	if (!S_ISREG(found->st_mode) || found->st_uid != 0 || found->st_nlink != 1)
		fail("%s: belongs to user %u, or is no plain file of one name: remove it, then "
		     "again",
		     path, (unsigned)found->st_uid);
	return fd;
}

static void setup_turn_file(const struct setup *setup, const char *path, gid_t gid)
{
	char *what = text("made, for group %s, mode 0660", setup->group);
	struct stat found;
	int fd;

	if (setup->is_dry) {
		bool stands = file_status_itself(path, &found) == 0 && found.st_uid == 0 &&
		              found.st_gid == gid && found.st_mode == (S_IFREG | SETUP_FILE_MODE);

		if (stands)
			printf("%s: stands already\n", path);
		else
			setup_say(setup, path, what);
		free(what);
		return;
	}
	fd = setup_open(path, &found);
	if (found.st_gid == gid && (found.st_mode & 07777) == SETUP_FILE_MODE)
		printf("%s: stands already\n", path);
	else if (fchown(fd, 0, gid) != 0 || fchmod(fd, SETUP_FILE_MODE) != 0)
		fail("%s: %s", path, strerror(errno));
	else
		setup_say(setup, path, what);
	close(fd);
	free(what);
}

/* Writes the lines that make all of it at each boot: the node's directory does not outlast one. */
static char *setup_tmpfiles_text(const struct setup *setup, const char *directory,
                                 const struct driver_report *report)
{
	char *lines = text("# Written by spillway doctor --setup --group %s.\n"
	                   "d %s 1777 root root -\n",
	                   setup->group, directory);

	for (int i = 0; i < report->device_count; i++) {
		char *more = text("%sf %s/turns-%s 0660 root %s -\n", lines, directory,
		                  report->device[i].uuid, setup->group);

		free(lines);
		lines = more;
	}
	return lines;
}

static bool setup_stands(const char *path, const char *lines)
{
	char there[8192];
	FILE *file = fopen(path, "re");
	size_t length = file ? fread(there, 1, sizeof there - 1, file) : 0;

	if (file)
		fclose(file);
	there[length] = '\0';
	return file && strcmp(there, lines) == 0;
}

static void setup_tmpfiles(const struct setup *setup, const char *lines)
{
	static const char path[] = SETUP_TMPFILES, temporary[] = SETUP_TMPFILES ".new";
	FILE *file;

	if (setup_stands(path, lines)) {
		printf("%s: stands already\n", path);
		return;
	}
	if (setup->is_dry) {
		printf("%s: would be written:\n%s", path, lines);
		return;
	}
	if (mkdir("/etc/tmpfiles.d", 0755) != 0 && errno != EEXIST)
		fail("/etc/tmpfiles.d: %s", strerror(errno));
	file = fopen(temporary, "we");
	if (!file || fputs(lines, file) < 0 || fclose(file) != 0 || chmod(temporary, 0644) != 0 ||
	    rename(temporary, path) != 0)
		fail("%s: %s", path, strerror(errno));
	setup_say(setup, path, "written, so that a boot makes them again");
}

void setup_make(const struct setup *setup, const struct driver_report *report)
{
	char directory[DIRECTORY_MAX + 1];
	gid_t gid = setup_find_group(setup->group);

	if (!setup->is_dry && geteuid() != 0)
		fail("--setup: only root may make turn files; as root: spillway doctor --setup "
		     "--group %s",
		     setup->group);
	if (report->device_count == 0)
		fail("--setup: no GPU is found, and each has a file of its own; 'spillway doctor' "
		     "says why. For the software GPU: spillway run --softgpu spillway doctor "
		     "--setup "
		     "--group %s",
		     setup->group);
	directory_of_node(directory, sizeof directory);
	setup_directory(setup, directory);
	for (int i = 0; i < report->device_count; i++) {
		char *path = text("%s/turns-%s", directory, report->device[i].uuid);

		setup_turn_file(setup, path, gid);
		free(path);
	}
	char *lines = setup_tmpfiles_text(setup, directory, report);

	setup_tmpfiles(setup, lines);
	free(lines);
	if (!setup->is_dry)
		printf("Jobs that start from now on, of users in group %s, take turns. Start those "
		       "that run again.\n",
		       setup->group);
}
