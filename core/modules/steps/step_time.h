/* SPDX-License-Identifier: MIT */
/*
 * How long steps take, by the device's clock: an event behind a step's last launch and one behind
 * that of a later step, and as many steps between them. The host's clock would not do: a program
 * may launch hundreds of steps before the device has done the first.
 *
 *   nothing --a step is told--> begun --the next ends--> ended --the device is there--> begun
 *      ^                          |                      |   ^
 *      +--- other work came ------+                      +---+ 3 more have ended, 12 more, ...
 *
 * The end is put off until steps are told again, so that a stretch is not always the same one or
 * two steps behind a wait. Each time it is put off three times as long, so that few events are
 * recorded.
 *
 * The mean is the program's: the time from step to step, with the validation, the data and the
 * waits between them. For example, 45 steps of 2 ms and a validation of 45 ms make a mean of 3 ms.
 * A break is left out: more than a second, and than 16 steps take, in which no step ended. So a
 * notebook that rests for an hour keeps the time of its steps. The mean covers the newest 1024 to
 * 2048 steps; before that it begins where the detector says that steps began.
 *
 * A stretch between two events is the device's time of steps alone. Stretches are told one by one,
 * for a trace. Other work ends a stretch; the next one is tied to the one before by an event that
 * stays behind its end.
 *
 * A step that is not measured is not told: where other work comes with every step, where the
 * program ends before the device was there, where the driver keeps no time.
 */
#ifndef SPILLWAY_STEPS_STEP_TIME_H
#define SPILLWAY_STEPS_STEP_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/driver.h"

/* The ends of steps, from the one after the last call's to this one's. */
struct step_ends {
	CUcontext context; /* the calling thread's */
	CUstream stream;   /* of the launch that ended the newest */
	uint64_t now_ns;
	uint64_t number; /* of the newest */
	uint64_t count;
	bool are_mixed;           /* something else was launched among them */
	bool are_first;           /* steps from here on are of another pattern */
	uint64_t first, first_ns; /* where are_first: as in struct step (step.h) */
	bool are_told;            /* a millisecond has passed since earlier ones were */
};

/* The measurements. */
struct step_timed {
	uint64_t mean_ns; /* from step to step, of the newest 1024 to 2048; 0: not known yet */
	uint64_t ns; /* of one step of the stretch whose end the device has passed; 0: of none */
	uint64_t end_ns; /* when that was, by the host's clock */
	uint64_t number; /* of the step that ended then */
};

/* Returns whether these ends are wanted, so many since the last call, though steps are not told. */
bool step_time_wants(int ordinal, uint64_t count);
/* Takes ends of steps on the device of this ordinal. Makes no call where a capture is active. */
struct step_timed step_time_take(int ordinal, const struct step_ends *ends);
/* Gives up the measurements in a context that is about to go, and their events with it. */
void step_time_leave_context(CUcontext context);

#endif
