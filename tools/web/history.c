/* SPDX-License-Identifier: MIT */
/* The last ten minutes of each job on each GPU. */
#include "tools/web/history.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/tool.h"

enum { SAMPLES = 300, TRACKS = 256 };
#define HISTORY_NS (SAMPLES * HISTORY_INTERVAL_NS)

struct track {
	uint64_t token;
	int gpu;
	size_t count; /* of samples since its beginning */
	struct history_sample sample[SAMPLES];
};

struct history {
	struct track *track[TRACKS]; /* NULL: none */
};

struct history *history_create(void)
{
	return allocate(sizeof(struct history));
}

static const struct history_sample *newest(const struct track *track)
{
	return &track->sample[(track->count - 1) % SAMPLES];
}

void history_add(struct history *history, uint64_t token, int gpu,
                 const struct history_sample *sample)
{
	struct track **free_place = NULL, *track = NULL;

	for (int i = 0; i < TRACKS && !track; i++) {
		struct track *one = history->track[i];

		if (!one && !free_place)
			free_place = &history->track[i];
		if (one && one->token == token && one->gpu == gpu)
			track = one;
	}
	if (!track && !free_place)
		return; /* the page then shows no curves of this job */
	if (!track) {
		track = *free_place = allocate(sizeof *track);
		track->token = token;
		track->gpu = gpu;
	}
	track->sample[track->count++ % SAMPLES] = *sample;
}

void history_forget(struct history *history, uint64_t now_ns)
{
	for (int i = 0; i < TRACKS; i++) {
		struct track *track = history->track[i];

		if (!track || newest(track)->at_ns + HISTORY_NS > now_ns)
			continue;
		free(track);
		history->track[i] = NULL;
	}
}

static void history_list(const struct track *track, const char *name, size_t offset,
                         struct json *json)
{
	size_t held = track->count < SAMPLES ? track->count : SAMPLES;

	json_open(json, name, '[');
	for (size_t i = track->count - held; i < track->count; i++) {
		const char *sample = (const char *)&track->sample[i % SAMPLES];
		uint64_t value;

		memcpy(&value, sample + offset, sizeof value);
		if (value == UINT64_MAX)
			json_null(json, NULL);
		else
			json_number(json, NULL, value);
	}
	json_close(json, ']');
}

void history_json(const struct history *history, uint64_t token, struct json *json)
{
	json_number(json, "interval_ns", HISTORY_INTERVAL_NS);
	json_open(json, "devices", '[');
	for (int i = 0; i < TRACKS; i++) {
		const struct track *track = history->track[i];

		if (!track || track->token != token)
			continue;
		json_open(json, NULL, '{');
		json_number(json, "gpu", (uint64_t)track->gpu);
#define LIST(name, field) history_list(track, name, offsetof(struct history_sample, field), json)
		LIST("at_ns", at_ns);
		LIST("device_charged", device);
		LIST("host_charged", host);
		LIST("busy_ns", busy_ns);
		LIST("steps", steps);
		LIST("launches", launches);
#undef LIST
		json_close(json, '}');
	}
	json_close(json, ']');
}
