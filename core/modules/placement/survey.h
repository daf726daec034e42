/* SPDX-License-Identifier: MIT */
/*
 * A survey: which memory the kernels of two steps use and how long each takes, measured by an event
 * before and behind each launch. For the decision where memory is to be (weigh.h).
 *
 *   none --begin--> sought --a step ends--> taken --two more end--> read --all times read--> done
 *                     |                       |
 *                     | no step ends          | too much, too long, unknown memory
 *                     v                       v
 *                  without steps            failed
 *
 * Where a program launches exactly the same again and again, with the same memory, that is its
 * step. It is known after two of them, and the survey ends with the fourth. A survey takes some
 * twenty steps where steps are found by their functions. Those are taken where nothing has repeated
 * for a while: a program of one function for many buffers has a step at each launch by its
 * functions.
 *
 * Its duty is bounded. While steps are sought it looks at SURVEY_LOOK launches in SURVEY_LOOK_NS.
 * It goes on only while these repeat exactly, for SURVEY_TRIES_NS at most. Then launches are not
 * reported until the time is over. For example, of 1,000,000 launches a second 65,536 to 69,632 are
 * looked at, and of 60,000 all. SURVEY_LAUNCHES at most are measured by events.
 *
 * Where no steps are found the launches of a while may be taken instead. Without times that tells
 * how often memory is used, and no more. A survey has failed where a kernel was launched with
 * unknown memory.
 *
 * There is one survey at a time in a process. The mover begins, polls and ends it; the program's
 * threads report launches and steps only while it asks them to. Times are given by the caller.
 */
#ifndef SPILLWAY_SURVEY_H
#define SPILLWAY_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/driver.h"
#include "core/modules/placement/weigh.h"

enum survey_state {
	SURVEY_NONE,
	SURVEY_SOUGHT,
	SURVEY_WITHOUT_STEPS,
	SURVEY_TAKEN,
	SURVEY_READ,
	SURVEY_DONE,
	SURVEY_FAILED,
};

enum {
	SURVEY_STEPS = 2,
	SURVEY_LAUNCHES = 1 << 14,
	SURVEY_USES = 1 << 17,
	SURVEY_GIVEN = 1 << 18,
	SURVEY_LOOK = 1 << 16,      /* launches that are looked at, in SURVEY_LOOK_NS */
	SURVEY_LOOK_ROOM = 1 << 12, /* of them wait to be read at most */
};
/* Ends what a launch was given. */
#define SURVEY_GIVEN_END UINT64_MAX
#define SURVEY_LOOK_NS   ((uint64_t)1000000000)
#define SURVEY_SEEKS_NS  ((uint64_t)120000000000) /* for steps, so long */
#define SURVEY_LASTS_NS  ((uint64_t)120000000000) /* at most */
#define SURVEY_WHILE_NS  ((uint64_t)2000000000)   /* where there are no steps */
/* An exact repeat goes on for so long before it is taken for a step. */
#define SURVEY_TRIES_NS ((uint64_t)2000000000)

/* The result: of the kernels, in order, the first addresses of the runs that each uses. */
struct survey {
	struct weigh_kernel *kernel;
	size_t kernels;
	CUdeviceptr *use;
	size_t uses;
	/*
	 * Of each launch that it is known of: its number, the addresses that its kernels were given
	 * (heat_given()), and SURVEY_GIVEN_END.
	 */
	CUdeviceptr *given;
	size_t givens;
	bool has_steps; /* they are SURVEY_STEPS steps; else launches of a while */
};

/*
 * Sets the function that has the program's threads report launches on a device, and its steps, or
 * no more. To be called once, before any survey.
 */
void survey_serve(void (*ask)(int ordinal, bool launches, bool steps));

/* --- the mover --- */

/*
 * Begins one of this device. has_steps: they are looked for, and may be found. Returns false while
 * there is one, or without memory for it.
 */
bool survey_begin(int ordinal, bool has_steps, uint64_t now);
/* Takes the launches of a while, where no steps were found; has_times: and how long each takes. */
void survey_without_steps(uint64_t now, bool has_times);
/*
 * Goes on with it. Returns its state: at SURVEY_WITHOUT_STEPS, SURVEY_DONE and SURVEY_FAILED the
 * caller is to act, else to call again.
 */
enum survey_state survey_poll(uint64_t now);
/* Returns the result, when it is done, until survey_end(). */
const struct survey *survey_found(void);
/* Returns why it has failed. */
const char *survey_failure(void);
void survey_end(void);

/* --- the program's threads --- */

struct survey_mark {
	uint64_t survey; /* 0: none takes this launch */
	size_t launch;
};

/* Takes a launch that is about to be made into this stream of the current context. */
struct survey_mark survey_before(int ordinal, CUcontext context, CUstream stream);
/* The launched function, by any value that launches which compute alike share. */
struct survey_launch {
	uint64_t key;
	CUstream stream;
	CUgraphExec graph; /* NULL: a kernel */
	CUfunction function;
	void **parameters, **extra;
	bool is_launched; /* the driver took it */
	bool is_blind;    /* its memory is unknown */
};
void survey_after(const struct survey_mark *mark, const struct survey_launch *launch);
void survey_step_ended(int ordinal);
/* Gives up the measurements in a context that is about to go, and their events with it. */
void survey_leave_context(CUcontext context);

#endif
