/* SPDX-License-Identifier: MIT */
/*
 * Events as a trace in Chrome's JSON form, which Perfetto and chrome://tracing open: per process
 * and GPU a track each for bursts, slots, turns, moves and steps, one for moments, and counters of
 * memory, limit and share.
 *
 * On one track nothing overlaps: an overlapping event is on another one of the same name.
 */
#ifndef SPILLWAY_TRACE_H
#define SPILLWAY_TRACE_H

#include <stdbool.h>

#include "tools/view/ring_reader.h"

struct trace;

/*
 * Begins a trace. The file is there when the trace ends. Returns NULL after saying why not. path
 * lives as long as the trace.
 */
struct trace *trace_begin(const char *path);
/* Adds an event; they come in the order of their begin, as far as is known. */
void trace_add(struct trace *trace, const struct ring_entry *entry);
/* Writes the events so far into the file that is not complete yet, FILE.XXXXXX. */
void trace_flush(struct trace *trace);
/* Returns false after saying why not. */
bool trace_end(struct trace *trace);

#endif
