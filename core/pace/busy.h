/*
 * Busy time: how long the device worked for this process, measured by events.
 *
 * burst   a run of launches on one stream without a gap, between two events
 * round   bursts of all streams of one context that are charged together; their union is busy time
 *
 * The end event is recorded again after each launch, so a burst always ends where its last kernel
 * does. When the next launch finds the burst's end reached, the stream had a gap and a new burst
 * begins. Not thread-safe: the pacer's lock guards it. No call is made while a capture is active
 * anywhere in the process: queries would invalidate it.
 */
#ifndef SPILLWAY_BUSY_H
#define SPILLWAY_BUSY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/driver.h"

enum { BUSY_BURSTS = 64, BUSY_ROUNDS = 8 };

struct busy;

struct busy *busy_create(void); /* NULL: no memory */

/* Around every launch, on the launching thread with its context current. */
void busy_before(struct busy *busy, CUcontext context, CUstream stream, uint64_t now_ns);
void busy_after(struct busy *busy, CUcontext context, CUstream stream);

/* When the open round began; 0: none is open. */
uint64_t busy_round_began(const struct busy *busy);
/* Launches in the open round. */
uint64_t busy_round_launches(const struct busy *busy);
/* Whether the open round can take no more bursts. */
bool busy_is_full(const struct busy *busy);
/* Ends the open round; false when as many rounds as can be held are still running. */
bool busy_close_round(struct busy *busy);
/* What closed rounds came to. */
struct busy_sum {
	uint64_t busy_ns;
	uint64_t launches;
	uint64_t longest_ns; /* of one round */
};

/* Sums up the closed rounds whose work is done and forgets them. Whether any is still running. */
bool busy_collect(struct busy *busy, struct busy_sum *sum);
/* What this context still runs is forgotten. alive: it is about to go, not gone, and so are its events. */
void busy_forget_context(struct busy *busy, CUcontext context, bool alive);
/* The stream is about to go: its handle may come again for another. */
void busy_forget_stream(struct busy *busy, CUstream stream);

#endif
