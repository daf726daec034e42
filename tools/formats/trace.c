/* SPDX-License-Identifier: MIT */
/*
 * Chrome's trace format: an object with "traceEvents", an array of events, each with a phase "ph":
 * X has a begin and a duration, i is a moment, C a counter, M names a process or track. Times are
 * microseconds.
 */
#include "tools/formats/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "tools/formats/event_words.h"
#include "tools/formats/json.h"
#include "tools/formats/output.h"
#include "tools/view/tool.h"

enum {
	LANES = 8,                  /* of one name, for events that overlap */
	GPUS = SEGMENT_DEVICES + 1, /* the last for events of no GPU */
};

/* The tracks of one process: when the last span on each ends; 0: there is no such track yet. */
struct tracks {
	struct tracks *next;
	const struct ring_source *source;
	int number;
	uint64_t end[GPUS][EVENT_KINDS][LANES];
	bool has_moments[GPUS];
};

struct trace {
	struct output file;
	struct json json;
	struct tracks *processes;
};

struct trace *trace_begin(const char *path)
{
	struct trace *trace = allocate(sizeof *trace);

	if (!output_begin(&trace->file, path, 0644)) {
		free(trace);
		return NULL;
	}
	trace->json.out = trace->file.out;
	json_open(&trace->json, NULL, '{');
	json_text(&trace->json, "displayTimeUnit", "ms");
	json_open(&trace->json, "traceEvents", '[');
	return trace;
}

void trace_flush(struct trace *trace)
{
	fflush(trace->file.out);
}

bool trace_end(struct trace *trace)
{
	bool written;

	json_close(&trace->json, ']');
	json_close(&trace->json, '}');
	putc('\n', trace->file.out);
	written = output_end(&trace->file);
	for (struct tracks *tracks = trace->processes, *next; tracks; tracks = next) {
		next = tracks->next;
		free(tracks);
	}
	free(trace);
	return written;
}

/* Opens an event, one to a line: more may be said of it until close_event(). */
static void open_event(struct trace *trace, const char *phase, const char *name, int process,
                       int track)
{
	putc('\n', trace->file.out);
	json_open(&trace->json, NULL, '{');
	json_text(&trace->json, "ph", phase);
	json_text(&trace->json, "name", name);
	json_integer(&trace->json, "pid", process);
	json_integer(&trace->json, "tid", track);
}

static void close_event(struct trace *trace)
{
	json_close(&trace->json, '}');
}

/* Names a process or a track, and says where it is to be shown. */
static void put_name(struct trace *trace, const char *what, int process, int track, int order,
                     const char *name)
{
	char *phase = text("%s_name", what);

	open_event(trace, "M", phase, process, track);
	json_open(&trace->json, "args", '{');
	json_text(&trace->json, "name", name);
	json_close(&trace->json, '}');
	close_event(trace);
	free(phase);
	phase = text("%s_sort_index", what);
	open_event(trace, "M", phase, process, track);
	json_open(&trace->json, "args", '{');
	json_integer(&trace->json, "sort_index", order);
	json_close(&trace->json, '}');
	close_event(trace);
	free(phase);
}

static struct tracks *tracks_of(struct trace *trace, const struct ring_source *source)
{
	struct tracks *tracks = trace->processes;
	char *name;

	while (tracks && tracks->source != source)
		tracks = tracks->next;
	if (tracks)
		return tracks;
	tracks = allocate(sizeof *tracks);
	tracks->source = source;
	tracks->number = trace->processes ? trace->processes->number + 1 : 1;
	tracks->next = trace->processes;
	trace->processes = tracks;
	name = text("%s/%d %s", source->job, source->pid, source->command);
	put_name(trace, "process", tracks->number, 0, tracks->number, name);
	free(name);
	return tracks;
}

/* Its number within the process; above 0, and in the order in which tracks are to be shown. */
static int track_number(int gpu, int kind, int lane)
{
	return 1 + (gpu * (EVENT_KINDS + 1) + kind) * LANES + lane;
}

static void name_track(struct trace *trace, const struct tracks *tracks, int gpu, int track,
                       const char *what)
{
	char *name = gpu < SEGMENT_DEVICES ? text("gpu %d %s", gpu, what) : text("%s", what);

	put_name(trace, "thread", tracks->number, track, track, name);
	free(name);
}

/*
 * Finds a track of this name that is free from then on; where all are taken, the one that is free
 * first.
 */
static int free_lane(const uint64_t end[LANES], uint64_t begin)
{
	int first = 0;

	for (int lane = 0; lane < LANES; lane++) {
		if (end[lane] <= begin)
			return lane;
		if (end[lane] < end[first])
			first = lane;
	}
	return first;
}

static void put_args(struct trace *trace, const struct event *event)
{
	json_open(&trace->json, "args", '{');
	event_values_json(&trace->json, event);
	json_close(&trace->json, '}');
}

static void add_span(struct trace *trace, struct tracks *tracks, int gpu, const struct event *event)
{
	static const char *const plural[EVENT_KINDS] = {
	    [EVENT_burst] = "bursts", [EVENT_slot] = "slots", [EVENT_turn] = "turns",
	    [EVENT_move] = "moves",   [EVENT_step] = "steps",
	};
	const char *name = event_words[event->kind].name;
	uint64_t *end = tracks->end[gpu][event->kind];
	uint64_t begin = event->begin_ns, duration = event->duration_ns;
	int lane = free_lane(end, begin), track = track_number(gpu, event->kind, lane);

	if (begin > UINT64_MAX - duration)
		return; /* of no clock */
	if (!end[lane])
		name_track(trace, tracks, gpu, track,
		           plural[event->kind] ? plural[event->kind] : name);
	if (begin < end[lane]) {
		duration = begin + duration > end[lane] ? begin + duration - end[lane] : 0;
		begin = end[lane];
	}
	end[lane] = begin + duration > 0 ? begin + duration : 1;
	open_event(trace, "X", name, tracks->number, track);
	json_text(&trace->json, "cat", name);
	json_micros(&trace->json, "ts", begin);
	json_micros(&trace->json, "dur", duration);
	put_args(trace, event);
	close_event(trace);
}

static void add_moment(struct trace *trace, struct tracks *tracks, int gpu,
                       const struct ring_entry *entry)
{
	int track = track_number(gpu, EVENT_KINDS, 0);
	const char *name = entry->lost ? "lost" : event_words[entry->event.kind].name;

	if (!tracks->has_moments[gpu]) {
		name_track(trace, tracks, gpu, track, "events");
		tracks->has_moments[gpu] = true;
	}
	open_event(trace, "i", name, tracks->number, track);
	json_text(&trace->json, "cat", name);
	json_text(&trace->json, "s", "t");
	json_micros(&trace->json, "ts", entry->event.begin_ns);
	if (entry->lost) {
		json_open(&trace->json, "args", '{');
		json_number(&trace->json, "records", entry->lost);
		json_close(&trace->json, '}');
	} else {
		put_args(trace, &entry->event);
	}
	close_event(trace);
}

/* Adds a value of a counter. A counter belongs to a process; the GPU is part of its name. */
static void add_counter(struct trace *trace, const struct tracks *tracks, int gpu, uint64_t at,
                        const char *what, const char *series, uint64_t value)
{
	char *name = text("gpu %d %s", gpu, what);

	if (value != CONFIG_UNLIMITED) {
		open_event(trace, "C", name, tracks->number, 0);
		json_micros(&trace->json, "ts", at);
		json_open(&trace->json, "args", '{');
		json_number(&trace->json, series, value);
		json_close(&trace->json, '}');
		close_event(trace);
	}
	free(name);
}

static void add_counters(struct trace *trace, const struct tracks *tracks, int gpu,
                         const struct event *event)
{
	uint64_t at = event->begin_ns + (event_words[event->kind].is_span ? event->duration_ns : 0);
	uint64_t value;

	if (event_value_of(event, "used", &value))
		add_counter(trace, tracks, gpu, at, "memory used", "bytes", value);
	if (event_value_of(event, "host_used", &value))
		add_counter(trace, tracks, gpu, at, "host memory used", "bytes", value);
	if (event->kind == EVENT_limit)
		add_counter(trace, tracks, gpu, at, "memory limit", "bytes", event->a);
	if (event->kind == EVENT_share)
		add_counter(trace, tracks, gpu, at, "share", "millipercent", event->a);
}

void trace_add(struct trace *trace, const struct ring_entry *entry)
{
	struct tracks *tracks = tracks_of(trace, entry->source);
	int gpu = event_gpu(entry);

	if (gpu < 0)
		gpu = SEGMENT_DEVICES;
	if (!entry->lost && event_words[entry->event.kind].is_span)
		add_span(trace, tracks, gpu, &entry->event);
	else
		add_moment(trace, tracks, gpu, entry);
	if (!entry->lost && gpu < SEGMENT_DEVICES)
		add_counters(trace, tracks, gpu, &entry->event);
}
