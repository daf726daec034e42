/* SPDX-License-Identifier: MIT */
/* Places in rings, and their text form, by which one reader goes on where another was. */
#include "core/rings/ring_known.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/state/refuse.h"

enum { RINGS_MOST = 65536 };

static const char first_line[] = "spillway ring reader 1";

char *ring_reader_serialize_state(const struct ring_reader *reader)
{
	char name[RING_NAME_MAX], *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	fprintf(out, "%s\nproduced %" PRIu64 "\ncompleted %" PRIu64 "\nlost %" PRIu64 "\n",
	        first_line, reader->produced, reader->completed, reader->lost);
	for (const struct known *known = reader->known; known; known = known->next) {
		ring_name(&known->id, name, sizeof name);
		if (faccessat(reader->directory, name, F_OK, 0) == 0)
			fprintf(out, "ring %s %" PRIu64 "\n", name, known->position);
	}
	fputs("end\n", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Parses "KEY NUMBER", written exactly so. */
static bool parse_count(const char *line, const char *key, uint64_t *value)
{
	char again[64];

	if (strncmp(line, key, strlen(key)) != 0)
		return false;
	*value = strtoull(line + strlen(key), NULL, 10);
	snprintf(again, sizeof again, "%s%" PRIu64, key, *value);
	return strcmp(line, again) == 0;
}

static bool parse_ring(char *line, struct known **list)
{
	char *number = strrchr(line, ' ');
	struct known *known;
	struct ring_id id;
	uint64_t position;

	if (strncmp(line, "ring ", 5) != 0 || number < line + 5 ||
	    !parse_count(number, " ", &position))
		return false;
	*number = '\0';
	if (!ring_name_parse(line + 5, &id) || *ring_known_find(list, &id))
		return false;
	known = ring_known_meet(list, &id);
	if (known)
		known->position = position;
	return known;
}

/* Returns what is between two newlines, each in its turn; NULL: no more. */
static char *next_line(char **rest)
{
	char *line = *rest, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*rest = end + 1;
	return line;
}

static bool parse_state(char *text, struct ring_reader *to)
{
	const char *line = next_line(&text);

	if (!line || strcmp(line, first_line) != 0)
		return false;
	if (!(line = next_line(&text)) || !parse_count(line, "produced ", &to->produced) ||
	    !(line = next_line(&text)) || !parse_count(line, "completed ", &to->completed) ||
	    !(line = next_line(&text)) || !parse_count(line, "lost ", &to->lost))
		return false;
	for (int rings = 0; rings < RINGS_MOST; rings++) {
		char *ring = next_line(&text);

		if (ring && strcmp(ring, "end") == 0)
			return *text == '\0';
		if (!ring || !parse_ring(ring, &to->known))
			return false;
	}
	return false;
}

int ring_reader_restore_state(struct ring_reader *reader, const char *state, char *message,
                              size_t size)
{
	struct ring_reader *read = ring_reader_create(-1);
	char *text = strdup(state);
	int error = 0;

	if (!read || !text) {
		error = state_refuse(-ENOMEM, message, size, "%s", strerror(ENOMEM));
	} else if (!parse_state(text, read)) {
		error = state_refuse(-EINVAL, message, size,
		                     "not the state of a reader of events, or damaged");
	} else {
		struct known *list = read->known;

		ring_reader_reset(reader);
		reader->known = list;
		reader->produced = read->produced;
		reader->completed = read->completed;
		reader->lost = read->lost;
		read->known = NULL;
	}
	free(text);
	ring_reader_destroy(read);
	return error;
}
