/* SPDX-License-Identifier: MIT */
/*
 * What the machine's file says of how it is to be kept to, before anything else is read.
 *
 * What cannot be read may have said that it is enforced: it counts as if it had. Runs inside the
 * user's process.
 */
#include "core/config/snapshot.h"

#include "core/base/file_status.h"
#include "core/base/once.h"
#include "core/base/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct config_machine machine;
static struct once once;

static void say(const char *path, const struct stat *found)
{
	snprintf(machine.fault, sizeof(machine.fault),
	         "%s: belongs to user %u, mode %04o; expected a file that user 0 "
	         "alone may write, as it is to be enforced",
	         path, (unsigned)found->st_uid, (unsigned)found->st_mode & 07777);
}

/* Checks that only root can have written what stands at the path. */
static bool is_roots(const char *path, mode_t others)
{
	struct stat found = {.st_uid = UINT32_MAX};

	if (file_status(path, &found) == 0 && found.st_uid == 0 && !(found.st_mode & others))
		return true;
	say(path, &found);
	return false;
}

/* Checks the file and the folder, in which somebody could put another file in its place. */
static void check_owner(void)
{
	char folder[] = CONFIG_SYSTEM_FILE;

	*strrchr(folder, '/') = '\0';
	if (is_roots(CONFIG_SYSTEM_FILE, S_IWGRP | S_IWOTH))
		is_roots(folder, S_IWGRP | S_IWOTH);
}

/*
 * Returns whether a text has a line that begins so, in whatever case, whatever stands before that
 * line.
 */
static bool has_line(const char *text, size_t length, const char *key)
{
	const char *end = text + length, *line = text;

	for (;;) {
		line += strspn(line, " \t");
		if (strncasecmp(line, key, strlen(key)) == 0)
			return true;
		line = memchr(line, '\n', (size_t)(end - line));
		if (!line++)
			return false;
	}
}

/* Returns whether the text of a file that is no configuration says that it is enforced. */
static bool may_bind(void)
{
	char *text;
	size_t length;
	bool binds;

	int status = config_file_load(CONFIG_SYSTEM_FILE, true, &text, &length);

	if (status != 0)
		return status != -ENOENT && status != -ENOTDIR;
	/* misspelt, too */
	binds = has_line(text, length, "enforc") || has_line(text, length, "requir");
	free(text);
	return binds;
}

static void read_machine(void)
{
	struct config *config = config_create();
	struct config_error error = {.message = "out of memory"};
	int status =
	    config ? config_add_file(config, LAYER_SYSTEM, CONFIG_SYSTEM_FILE, &error) : -ENOMEM;

	if (status == 0) {
		machine.enforces = config->job.enforces;
		machine.requires = config->requires;
		memcpy(machine.state_dir, config->state_dir, sizeof(machine.state_dir));
		memcpy(machine.guaranteed, config->guaranteed, sizeof(machine.guaranteed));
		if (machine.enforces || machine.requires)
			check_owner();
	} else if (may_bind()) {
		machine.enforces = machine.requires = true;
		snprintf(machine.fault, sizeof(machine.fault), "%s", error.message);
	}
	config_release(config);
	if (machine.enforces)
		place_bind(machine.state_dir);
}

const struct config_machine *config_machine(void)
{
	once_call(&once, read_machine);
	return &machine;
}

bool config_may_be_guaranteed(uid_t user)
{
	return config_lists_user(config_machine()->guaranteed, user);
}
