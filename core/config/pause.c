/* SPDX-License-Identifier: MIT */
/*
 * A job's pause: a file of its own, so that no error in the override file can undo it. The file's
 * existence is the pause. Its text names the user, the time and the boot, for people and for the
 * next life of the job.
 */
#include "core/config/snapshot.h"

#include "core/base/hash.h"
#include "core/base/units.h"
#include "core/config/listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pause_copy(char *to, size_t size, const char *value)
{
	snprintf(to, size, "%s", value);
}

static int pause_take(void *cookie, const struct config_item *item, struct config_error *error)
{
	struct config_pause *pause = cookie;

	(void)error;
	if (!item->key)
		return 0;
	if (strcmp(item->key, "evict") == 0)
		(void)units_parse_bool(item->value, &pause->evict);
	else if (strcmp(item->key, "by") == 0)
		pause_copy(pause->by, sizeof(pause->by), item->value);
	else if (strcmp(item->key, "boot") == 0)
		pause_copy(pause->boot_id, sizeof(pause->boot_id), item->value);
	else if (strcmp(item->key, "since") == 0)
		pause->since_ns = strtoull(item->value, NULL, 10);
	else if (strcmp(item->key, "at") == 0)
		pause->at_ns = strtoull(item->value, NULL, 10);
	return 0;
}

void config_pause_read(const char *path, const char *boot_id, struct config_pause *pause)
{
	struct config_error error;
	char *text;
	size_t length;

	memset(pause, 0, sizeof(*pause));
	if (config_file_load(path, false, &text, &length) != 0)
		return;
	(void)config_read(path, text, length, pause_take, pause, &error);
	pause->is_on = !*boot_id || !pause->boot_id[0] || strcmp(pause->boot_id, boot_id) == 0;
	if (pause->is_on)
		pause->hash = hash_bytes(HASH_NOTHING, text, length);
	free(text);
}

int config_pause_write(const char *path, const struct config_pause *pause)
{
	char text[512];
	int length = snprintf(text, sizeof(text),
	                      "# Written by spillway pause; spillway resume removes it.\n"
	                      "[pause]\nevict = %s\nby = %s\nsince = %" PRIu64 "\nat = %" PRIu64
	                      "\nboot = %s\n" LISTENER_WHOLE,
	                      pause->evict ? "yes" : "no", pause->by, pause->since_ns, pause->at_ns,
	                      pause->boot_id);

	return config_file_replace(path, text, (size_t)length);
}
