/*
 * What step detection remembers of the launches while it seeks: the functions, and the order of the newest launches;
 * and the repeating pattern that it finds there. Memory of a fixed size; no clock, no lock, no allocation.
 *
 * A function is known by a key (its own, or its own and its grid's). Where a step is long the most frequent functions
 * are muted: they are no longer written into the history, which so reaches further back.
 */
#ifndef SPILLWAY_STEP_HISTORY_H
#define SPILLWAY_STEP_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

enum {
	STEP_FUNCTIONS = 512,
	STEP_SLOTS = 1024,
	STEP_EVENTS = 4096,
	STEP_ANY = UINT16_MAX, /* of `expected`: any number */
	STEP_NONE = UINT16_MAX,
};

/* What a function is to the pattern. */
enum step_role {
	STEP_FOREIGN, /* it is in few units */
	STEP_VARYING, /* in many */
	STEP_STEADY,  /* in nearly all, in nearly all of them as often */
};

/* While a pattern is sought: over the anchor's returns, or over units. */
struct step_count {
	uint16_t now, total, present, usual, votes, matches;
};

/* While a pattern is followed, for a function that is not in every unit. */
struct step_rhythm {
	uint32_t last;  /* unit that the function was in last; 0: none */
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
	uint32_t last;     /* position of its newest launch */
	uint32_t launches; /* all of them */
	uint32_t idle_us;  /* after its launches until the next launch, while a pattern is sought */
	uint32_t shape;    /* of its newest launch */
	uint32_t reshaped; /* launches with another shape than the one before */
	uint32_t unit;     /* number of the unit it was launched in last */
	uint16_t in_unit;  /* launches in that unit */
	uint16_t expected; /* launches in a unit: by its role 0, STEP_ANY, a number */
	union {
		struct step_count count;
		struct step_rhythm rhythm;
	};
	uint8_t role;
	bool covers : 1; /* it is in most units */
	bool closes : 1; /* it comes with every k-th */
	bool muted : 1;
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
	uint32_t function_count;
	uint32_t event_count;
	uint32_t unwritten; /* launches since the newest event */
	bool has_muted;
	struct step_event events[STEP_EVENTS];
};

/* A pattern: the anchor's returns close units. */
struct step_pattern {
	uint16_t anchor;
	uint32_t gap;      /* the anchor returns when it was away for more launches than this */
	uint32_t covering; /* functions that are in most units */
	uint32_t steady;   /* functions that keep their number */
	uint32_t usual;    /* launches of these in a unit */
	uint32_t units;    /* in the history */
	uint32_t length;   /* launches of most units */
	uint32_t alike;    /* units that are so long */
	uint32_t returns;  /* of the anchor, units or not */
	uint32_t events;   /* in the history from the first return to the last */
	uint32_t launches; /* likewise, those that are not written included */
	uint64_t ns;       /* likewise */
	bool reshaped;     /* what keeps its number does not keep its grid */
};

void step_history_clear(struct step_history *history);
/* The function with this key, which is made if there is room; STEP_NONE if there is none. */
uint16_t step_history_function(struct step_history *history, uint64_t key);
/* Forgets the oldest half. */
void step_history_halve(struct step_history *history);
/* Mutes the most frequent functions, so that half of the history becomes free. False: too few would remain. */
bool step_history_thin(struct step_history *history);
/* Forgets functions that are neither in the history nor muted; the others' numbers change. */
void step_history_forget(struct step_history *history);

/*
 * Finds the pattern whose units are the shortest, and writes down with the functions what they are to it. False: none
 * is certain enough.
 */
bool step_history_find(struct step_history *history, struct step_pattern *pattern);

/* It is launched with many grids. */
static inline bool step_is_reshaped(const struct step_function *function)
{
	return function->reshaped > function->launches / 4;
}

/* As an anchor: rather what is always launched with one grid, and after which most time passes: there steps end. */
static inline bool step_is_better(const struct step_function *a, const struct step_function *b)
{
	if (step_is_reshaped(a) != step_is_reshaped(b))
		return step_is_reshaped(b);
	return (uint64_t)a->idle_us * b->launches > (uint64_t)b->idle_us * a->launches;
}

/* Whether so many of the covering functions make a unit. */
static inline bool step_covers(const struct step_pattern *pattern, uint32_t covered)
{
	return covered * 5 >= pattern->covering * 3;
}

static inline uint16_t *step_history_slot(struct step_history *history, uint64_t key)
{
	uint32_t slot = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 54);

	while (history->slots[slot] && history->functions[history->slots[slot] - 1].key != key)
		slot = (slot + 1) % STEP_SLOTS;
	return &history->slots[slot];
}

/* While there is room: event_count < STEP_EVENTS. */
static inline void step_history_write(struct step_history *history, uint16_t function,
                                      uint64_t now_ns)
{
	uint32_t launches = ++history->unwritten;

	if (history->functions[function].muted)
		return;
	history->events[history->event_count++] =
	    (struct step_event){.function = function,
	                        .launches = launches < UINT16_MAX ? (uint16_t)launches : UINT16_MAX,
	                        .tick = (uint32_t)(now_ns >> 16)};
	history->unwritten = 0;
}

#endif
