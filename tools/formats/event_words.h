/* SPDX-License-Identifier: MIT */
/*
 * Events as lines: for people, and as JSON. The values of an event, and their units, come from the
 * list of events (core/rings/event.h).
 */
#ifndef SPILLWAY_EVENT_WORDS_H
#define SPILLWAY_EVENT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/view/ring_reader.h"
#include "tools/view/counters.h"
#include "tools/formats/json.h"

struct event_value {
	const char *name;
	enum counter_unit unit; /* COUNTER_none: there is none */
};

struct event_words {
	const char *name, *meaning;
	bool is_span;
	struct event_value value[3];
};

extern const struct event_words event_words[EVENT_KINDS];

/* Reads a value by its name. Returns false where there is no such value. */
bool event_value_of(const struct event *event, const char *name, uint64_t *value);

/* Returns the GPU's number within the job; -1: none, or not known. */
int event_gpu(const struct ring_entry *entry);
/*
 * Writes the handle of its object: "/job:bert/process:4711/gpu:0/ctx1/allocation/00007f...", or as
 * far as there is such: "/job:bert/process:4711". Returns buf.
 */
const char *event_path(const struct ring_entry *entry, char *buf, size_t size);

/* Prints one line each, newline included. user: the job's user; NULL: the calling one. */
/* holders: of a refusal, the calls that held the memory; NULL: not known. */
void event_print_text(FILE *out, const struct ring_entry *entry, const char *user,
                      const char *holders);
void event_print_json(FILE *out, const struct ring_entry *entry, const char *user,
                      const char *holders);
/* Returns the event's time by CLOCK_REALTIME. */
uint64_t event_time(const struct ring_entry *entry);
/* Writes the values into an object. */
void event_values_json(struct json *json, const struct event *event);

#endif
