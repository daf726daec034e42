/* SPDX-License-Identifier: MIT */
/* The part that busy_bursts.c and busy_bursts.c share; nobody else includes it. */
#ifndef SPILLWAY_BUSY_PRIVATE_H
#define SPILLWAY_BUSY_PRIVATE_H

#include <stdatomic.h>

#include "core/pace/busy.h"

struct burst {
	CUcontext context;
	CUstream stream;
	uintptr_t thread; /* of a per-thread default stream: one handle, many streams; else 0 */
	CUevent begin, end;
	uint64_t last_ns;           /* of its last launch */
	uint64_t unrecorded_ns;     /* what launches after the end event should cost */
	uint64_t cost_ns;           /* what all of its launches should cost */
	_Atomic uint32_t launching; /* threads between busy_before() and busy_after() */
	_Atomic bool follows;       /* one is between busy_follow() and busy_followed() */
	uint64_t
	    begun_ns; /* when begin was recorded, until the first launch; 0: the stream was busy */
	uint64_t idle_ns; /* from begin until its first kernel could start */
	bool is_sparse;   /* launches come one by one */
	bool is_torn;     /* the process stood still within a launch: a gap nobody saw */
	bool open;        /* takes more launches */
	bool recorded;    /* end was recorded at least once */
	bool closed;      /* its round is */
	bool is_leaving;  /* its context is, and its events with it */
};

struct round {
	struct busy_sum sum;
	int count;
	struct burst burst[BUSY_BURSTS];
};

/* The last one collected stays: the next one's times are compared with its first event. */
enum { PLACES = BUSY_ROUNDS + 2 };

struct busy {
	struct round *open;         /* the next after the closed ones */
	uint64_t collected, closed; /* rounds so far; each has its place in a ring */
	bool is_sparse;  /* as the last launch was that had another before it on its stream */
	double until_ms; /* where the last one's union ended, from its first event on */
	struct round rounds[PLACES];
};

static inline struct round *round_of(struct busy *busy, uint64_t number)
{
	return &busy->rounds[number % PLACES];
}

#endif
