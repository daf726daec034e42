/* SPDX-License-Identifier: MIT */
/*
 * Capture of streams: which stream is in which sequence, and which calls are allowed meanwhile. The
 * caller passes the effect of each call on a capture; see the functions' words. All under
 * driver_lock.
 */
#ifndef SOFTGPU_CAPTURE_H
#define SOFTGPU_CAPTURE_H

#include "tests/softgpu/driver.h"

/* The work that an event that was recorded in a captured stream stands for. */
struct captured_event {
	struct capture *capture; /* NULL: its last recording was not captured */
	struct node_set nodes;
};

/* A call that is known by name: refused when it is potentially unsafe and this thread may not. */
CUresult capture_check_call(const char *call);
/* Before all work of the context is waited for: refused where a stream of it is captured. */
CUresult capture_check_context(const struct context *context);
/* Refuses what is potentially unsafe, where this thread may not do that now. */
CUresult capture_check_unsafe(void);
/* Before work is queued as it is: refused in a stream that is captured or must wait for one. */
CUresult capture_check_queue(struct stream *stream);
/* Returns whether the legacy stream would wait for a captured one; without harm to the capture. */
bool capture_blocks_legacy(const struct stream *stream);
/* Returns whether a capture began in the stream, and has not ended. */
bool capture_is_origin(const struct stream *stream);
/* The stream takes no part any more: it is being closed. */
void capture_forget_stream(struct stream *stream);
/* Takes a piece of work into the captured stream's graph. */
CUresult capture_add(struct stream *stream, CUgraphNodeParams *params);
CUresult capture_add_kernel(struct stream *stream, CUgraphNodeParams *params,
                            const CUlaunchConfig *shape, bool cooperative);
/* A launch of an executable graph becomes a child graph. */
struct graph_exec;
CUresult capture_add_exec(struct stream *stream, const struct graph_exec *exec);

CUresult capture_record_event(struct stream *stream, struct captured_event *event);
/* The stream waits for the event; it joins the capture if it is in none. */
CUresult capture_wait_event(struct stream *stream, const struct captured_event *event);
/* Refuses to ask for the state of an event that was captured. */
CUresult capture_check_event(const struct captured_event *event);
void captured_event_clear(struct captured_event *event);

#endif
