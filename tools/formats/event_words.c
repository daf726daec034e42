/* SPDX-License-Identifier: MIT */
/* Events as lines. */
#include "tools/formats/event_words.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "core/registry/registry.h"
#include "tools/formats/value.h"
#include "tools/view/node.h"
#include "tools/view/tool.h"

enum { SPAN = true, MOMENT = false };

const struct event_words event_words[EVENT_KINDS] = {
#define X(kind, time, meaning, a, a_unit, b, b_unit, c, c_unit) \
	{#kind,                                                 \
	 meaning,                                               \
	 time,                                                  \
	 {{#a, COUNTER_##a_unit}, {#b, COUNTER_##b_unit}, {#c, COUNTER_##c_unit}}},
    EVENTS(X)
#undef X
};

static uint64_t event_value(const struct event *event, int i)
{
	return i == 0 ? event->a : i == 1 ? event->b : event->c;
}

bool event_value_of(const struct event *event, const char *name, uint64_t *value)
{
	const struct event_words *words = &event_words[event->kind];

	for (int i = 0; i < 3; i++) {
		if (strcmp(words->value[i].name, name) == 0) {
			*value = event_value(event, i);
			return true;
		}
	}
	return false;
}

int event_gpu(const struct ring_entry *entry)
{
	int ordinal = entry->event.device;

	return ordinal < 0 ? -1 : entry->source->device[ordinal];
}

uint64_t event_time(const struct ring_entry *entry)
{
	return entry->event.begin_ns + (uint64_t)entry->source->realtime_offset_ns;
}

const char *event_path(const struct ring_entry *entry, char *buf, size_t size)
{
	const struct event *event = &entry->event;
	struct handle handle = {.process = entry->source->pid, .gpu = event->device};
	int length;

	if (event->device >= 0 && event->object && !entry->lost) {
		strcpy(handle.job, entry->source->job);
		snprintf(handle.name, sizeof handle.name, "%016" PRIx64, event->object);
		strcpy(handle.type_name, event->kind == EVENT_context ? "context" : "allocation");
		strcpy(handle.container, "default");
		if (event->context)
			snprintf(handle.container, sizeof handle.container, "ctx%" PRIu32,
			         event->context);
		return handle_format(&handle, buf, size);
	}
	length = snprintf(buf, size, "/job:%s/process:%d", entry->source->job, handle.process);
	if (event->device >= 0 && (size_t)length < size)
		snprintf(buf + length, size - (size_t)length, "/gpu:%d", event->device);
	return buf;
}

void event_print_text(FILE *out, const struct ring_entry *entry, const char *user,
                      const char *holders)
{
	const struct event *event = &entry->event;
	const struct event_words *words = &event_words[event->kind];
	const char *separator = "  ";
	char buf[REGISTRY_HANDLE_MAX];

	fprintf(out, "%s.%06u  %s%s%s/%d", time_text(event_time(entry), buf, sizeof buf),
	        (unsigned)(event_time(entry) % 1000000000 / 1000), user ? user : "",
	        user ? "/" : "", entry->source->job, entry->source->pid);
	if (entry->lost) {
		fprintf(out, "  %" PRIu64 " events are lost: overwritten before they were read\n",
		        entry->lost);
		return;
	}
	if (event_gpu(entry) >= 0)
		fprintf(out, "  gpu %d", event_gpu(entry));
	fprintf(out, "  %s", words->name);
	if (words->is_span) {
		fprintf(out, "%stook %s", separator,
		        units_format_duration(event->duration_ns, buf, sizeof buf));
		separator = ", ";
	}
	for (int i = 0; i < 3; i++) {
		if (words->value[i].unit == COUNTER_none)
			continue;
		fprintf(
		    out, "%s%s %s", separator, words->value[i].name,
		    value_in_unit(words->value[i].unit, event_value(event, i), buf, sizeof buf));
		separator = ", ";
	}
	if (event->object)
		fprintf(out, "%s%s", separator, event_path(entry, buf, sizeof buf));
	if (holders)
		fprintf(out, "%sheld: %s", separator, holders);
	putc('\n', out);
}

void event_values_json(struct json *json, const struct event *event)
{
	const struct event_words *words = &event_words[event->kind];

	for (int i = 0; i < 3; i++) {
		const struct event_value *value = &words->value[i];
		uint64_t number = event_value(event, i);
		const char *word = counter_unit_word(value->unit, number);
		bool is_known = counter_unit_is_code(value->unit) ? word && strcmp(word, "-") != 0
		                : value->unit == COUNTER_user     ? number
		                                                  : number != CONFIG_UNLIMITED;
		char name[NODE_USER_MAX];

		if (value->unit == COUNTER_none)
			continue;
		if (!is_known)
			json_null(json, value->name);
		else if (value->unit == COUNTER_user)
			json_text(json, value->name,
			          value_in_unit(COUNTER_user, number, name, sizeof name));
		else if (value->unit == COUNTER_flag)
			json_bool(json, value->name, number);
		else if (word)
			json_text(json, value->name, word);
		else
			json_number(json, value->name, number);
	}
}

void event_print_json(FILE *out, const struct ring_entry *entry, const char *user,
                      const char *holders)
{
	const struct event *event = &entry->event;
	struct json json = {.out = out};
	char path[REGISTRY_HANDLE_MAX];

	json_open_document(&json);
	json_number(&json, "time_ns", event_time(entry));
	json_text(&json, "job", entry->source->job);
	if (user)
		json_text(&json, "user", user);
	json_integer(&json, "process", entry->source->pid);
	if (entry->lost) {
		json_text(&json, "event", "lost");
		json_number(&json, "records", entry->lost);
	} else {
		if (event_gpu(entry) >= 0)
			json_integer(&json, "gpu", event_gpu(entry));
		else
			json_null(&json, "gpu");
		json_text(&json, "event", event_words[event->kind].name);
		json_number(&json, "begin_ns", event->begin_ns);
		if (event_words[event->kind].is_span)
			json_number(&json, "duration_ns", event->duration_ns);
		event_values_json(&json, event);
		if (holders)
			json_text(&json, "holders", holders);
		json_text(&json, "resource", event_path(entry, path, sizeof path));
	}
	json_close(&json, '}');
	putc('\n', out);
}
