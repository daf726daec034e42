/*
 * A step detector, and following a pattern that was found: units and steps by the anchor's returns. Private to
 * core/pace/step*.c.
 */
#ifndef SPILLWAY_STEP_FOLLOW_H
#define SPILLWAY_STEP_FOLLOW_H

#include "core/steps/step.h"
#include "core/steps/history.h"

enum {
	STEP_VISITORS = 64,
};

enum step_phase {
	STEP_SEEKING,
	STEP_TRYING, /* steps are counted, but not told: it may be a loop within a step */
	STEP_TRUSTING,
};

struct step_times {
	uint64_t ns, steps;
};

struct step_detector {
	struct step_history history;
	struct step_pattern pattern;
	enum step_phase phase;
	uint32_t position; /* launches so far */

	/* --- seeking --- */
	bool by_shape;            /* a function with another grid is another */
	bool by_shape_in_vain;    /* that was tried */
	bool in_vain;             /* as was seeking by functions alone */
	bool folded;              /* too many functions: several are taken for one */
	uint32_t next_look;       /* events */
	uint32_t thinned, failed; /* times */
	uint32_t unknown;         /* launches of functions for which there was no room */
	uint32_t rest, next_rest; /* launches */
	uint32_t regular;         /* position since which a pattern was seen; 0: it was not */
	uint64_t newest_ns;
	uint16_t newest_function;

	/* --- following --- */
	bool
	    is_loop; /* units are of two kinds, many of one and many of the other: they lie within a step */
	uint32_t look_position, look_units, stray; /* since the last look */
	uint32_t tried_unit;
	uint32_t tried_units, tried_position; /* since the pattern began */
	uint64_t tried_since_ns;

	/* the unit */
	uint32_t unit;          /* its number, of all that the anchor closed */
	uint32_t true_unit;     /* likewise, of those that are units */
	uint32_t unit_position; /* its first launch */
	uint32_t late_position;
	uint32_t covered;                 /* of the functions that most units have */
	uint32_t odd;                     /* launches that do not belong to it */
	uint32_t excess;                  /* steady functions that came too often */
	uint32_t excess_launches;         /* of these, that many too many */
	uint32_t excess_usual;            /* of these, as many as usual */
	bool anchored_anew;               /* it is but a part of one */
	uint64_t unit_begun_ns;           /* 0: not known */
	uint16_t visitors[STEP_VISITORS]; /* functions in it that are not in every one */
	uint32_t visitor_count;
	uint32_t odd_units; /* in a row */
	uint32_t bare;      /* in a row, with some of the functions that most units have */
	uint64_t bare_ns;   /* of the first */
	uint64_t usual_ns;  /* of a unit, lately */
	uint64_t steady_ns; /* time in units since other work came between */

	/* the step */
	uint32_t closing;               /* units in it */
	uint32_t closers, closers_seen; /* functions that close it; those of them in the unit */
	uint32_t units;                 /* so far */
	uint64_t step_ns;
	bool untimed, closed;
	bool is_split;     /* the step before ended with a part of what closes */
	uint32_t left_out; /* steps in a row that ended without what closes them */
	uint64_t before;   /* steps of patterns that came to their end */
	uint32_t owed;     /* steps that ended and are to be told */
	struct step newest, told;

	/* the mean */
	struct step_times timed, since_wait;
	struct step_times before_wait; /* of those timed */
	uint32_t waits;
};
_Static_assert(sizeof(struct step_detector) <= 65536, "the public header promises this");

/* Before the first launch that is followed by a new pattern. */
void step_follow_start(struct step_detector *d);
/* One launch, with the number of launches since the function's last. What ended with it is counted in `owed`. */
void step_follow(struct step_detector *d, uint16_t function, uint32_t away, uint64_t now_ns);
/* At late_position the anchor has been away for many units: another may have to take its place. */
void step_late(struct step_detector *d, uint64_t now_ns);
/* Whether most of what was muted is in each unit; what comes at random is not, however alike the rest may be. */
bool step_has_muted(const struct step_detector *d);
/* Whether some function closes steps, or so it seems as yet. */
bool step_may_have_closer(const struct step_detector *d);
/* Counts anew what tells whether the pattern still holds. */
void step_look_anew(struct step_detector *d);
void step_forget_times(struct step_detector *d);

#endif
