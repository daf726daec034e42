/* SPDX-License-Identifier: MIT */
/*
 * A step detector from inside: what it remembers of the launches, the pattern it finds there, and
 * how it follows that pattern. Private to core/steps. Memory of a fixed size; no clock, no lock, no
 * allocation.
 */
#ifndef SPILLWAY_STEPS_DETECTOR_H
#define SPILLWAY_STEPS_DETECTOR_H

#include "core/steps/step.h"

enum {
	STEP_FUNCTIONS = 1024, /* where there are more, several are taken for one */
	STEP_SLOTS = 2048,
	STEP_EVENTS = 4096,
	STEP_VISITORS = 64,
	STEP_MIN_RETURNS = 8,
	STEP_ANY = UINT16_MAX, /* of `expected`: any number */
	STEP_NONE = UINT16_MAX,
};

enum step_phase {
	STEP_SEEKING,
	STEP_TRYING, /* steps are counted, but not told: it may be a loop within a step */
	STEP_TRUSTING,
};

/* Counts of a function while a pattern is sought, over units. */
struct step_count {
	uint16_t now, total, present;
	uint16_t usual, votes; /* the number in most units, found by a vote: pro less contra */
};

/*
 * For a function that is not in every unit, while a pattern is followed: after how many units it
 * comes again.
 */
struct step_rhythm {
	uint32_t last;  /* the unit it was in last; 0: none */
	uint16_t every; /* units from one to the next */
	uint8_t votes;  /* for this number */
	uint8_t groups; /* since it is this number: units that the function was in */
	uint8_t exact;  /* of these, just so many after the one before */
	uint8_t spoilt; /* of these, together with other work */
	uint8_t run;    /* times in a row that it was away for a few units at most */
	uint8_t runs;   /* that were long, and after which it was long away */
};

struct step_function {
	uint64_t key;
	uint32_t launches; /* this and the next four: while a pattern is sought */
	uint32_t idle_us;  /* after its launches until the next launch */
	uint32_t shape;    /* of its newest launch */
	uint32_t reshaped; /* launches with another shape than the one before */
	union {
		struct step_count count;
		struct step_rhythm rhythm;
	};
	uint32_t unit;    /* number of the unit it was launched in last */
	uint16_t in_unit; /* launches in that unit */
	uint16_t
	    expected; /* launches in a unit: a number, STEP_ANY, 0 where it belongs to few units */
	bool steady : 1; /* it is in most units, as often in nearly all of them */
	bool covers : 1; /* it is in most units */
	bool closes : 1; /* it comes with every k-th */
	bool muted : 1;  /* its launches stay out of the history, which so reaches further back */
};

/* A launch. */
struct step_event {
	uint16_t function;
	uint16_t launches; /* since the event before it, this one included; at most UINT16_MAX */
	uint32_t tick;     /* time, in 2^16 ns */
};

struct step_history {
	struct step_function functions[STEP_FUNCTIONS];
	uint16_t slots[STEP_SLOTS]; /* index of a function + 1 */
	uint32_t function_count, event_count;
	uint32_t unwritten; /* launches since the newest event */
	struct step_event events[STEP_EVENTS];
};

/*
 * A pattern: the anchor's returns close units. The counts are those of the history it was found in.
 */
struct step_pattern {
	uint16_t anchor;
	uint32_t covering; /* functions that are in most units */
	uint32_t steady;   /* functions that keep their number */
	uint32_t returns, units;
	uint32_t events,
	    launches;  /* from the first return to the last; launches: those not written included */
	uint64_t ns;   /* likewise */
	uint32_t late; /* launches after which the anchor should have come long ago */
};

struct step_detector {
	struct step_history history;
	struct step_pattern pattern;
	enum step_phase phase;
	uint32_t position; /* launches so far */

	/* --- seeking --- */
	bool by_shape;            /* functions are told apart by their grids, too */
	uint32_t next_look;       /* events */
	uint32_t failed;          /* times that the history was full in vain */
	uint32_t rest, next_rest; /* launches that are not looked at */
	uint32_t regular;         /* position since which a pattern was seen; 0: it was not */
	uint64_t regular_ns;      /* when that was */
	uint64_t newest_ns;
	uint16_t newest_function;

	/* --- trying --- */
	bool is_loop;   /* many units are of one kind, then many of another: a step has both */
	uint32_t stray; /* launches that belong to no unit, since the pattern was found */
	uint32_t tried_position; /* since when; so, too, the next */
	uint64_t tried_since_ns;

	/* --- the unit --- */
	uint32_t unit;      /* its number, of all that the anchor closed */
	uint32_t true_unit; /* likewise, of those that are units */
	uint32_t late_position;
	uint32_t true_position;           /* where the newest that is a unit ended */
	uint64_t true_ns;                 /* when it did */
	uint32_t covered;                 /* of the functions that most units have */
	uint32_t odd;                     /* launches that do not belong to it */
	uint32_t excess;                  /* steady functions that came too often */
	uint32_t excess_launches;         /* of these, that many too many */
	uint32_t excess_usual;            /* of these, as many as usual */
	uint32_t closers_seen;            /* of the functions that close steps */
	uint16_t visitors[STEP_VISITORS]; /* functions in it that are not in every one */
	uint32_t visitor_count;

	/* --- units lately --- */
	uint32_t odd_units; /* in a row */
	uint32_t bare;      /* in a row, with some of the functions that most units have */

	/* --- the step --- */
	uint32_t closing; /* units in it */
	uint32_t closers; /* functions that close it */
	uint32_t units;   /* so far */
	bool is_mixed;    /* other work came in it */
	bool closed;
	uint64_t before;   /* steps of patterns that came to their end */
	uint64_t since_ns; /* when the first of these, or what was counted back to, was launched */
	uint32_t owed;     /* steps that ended and are to be told */
	struct step newest;
};
_Static_assert(sizeof(struct step_detector) <= 98304, "the public header promises this");

/* Returns whether so many of the covering functions make a unit. */
static inline bool step_covers(const struct step_pattern *pattern, uint32_t covered)
{
	return covered * 5 >= pattern->covering * 3;
}

#endif
