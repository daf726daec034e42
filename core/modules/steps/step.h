/* SPDX-License-Identifier: MIT */
/*
 * Step detection: finds the period of a program's launches, a mini-batch, without its help.
 *
 * Nothing here has a clock, takes a lock, calls the driver or allocates after creation. A launch
 * costs one look into a table, some 10 ns; while a pattern is sought the history is looked through
 * now and then, which takes up to some milliseconds.
 *
 * history   the newest launches; where a step is long, of functions that are launched seldom
 * anchor    a function that closes a unit when it returns. Most launches come with most of its
 *           returns, and some functions always as often. Of all such, the one that returns most
 *           often. Grids are looked at only where a few functions do everything, because batches
 *           vary
 * unit      from one return to the next, if it has most of the functions that units have. The
 *           forward passes of a validation are none. One with much else counts but is not whole
 * closer    where gradients are accumulated units are micro-batches. A function that comes with
 *           every k-th alone ends the step. Or it is left out (loss scaling), and the k-th unit
 *           ends the step. k is at most 8, or 16, 32 or 64, because a validation that was compiled
 *           on its own and runs every 10 steps looks the same otherwise
 *
 * A pattern is tried before it is trusted: for 2 s, or 256 units and a second, or 4096 units, and
 * up to 10 s while a function may turn out to close steps. Its steps are counted from its beginning
 * and told from then on. It may change a little, and another function may become its anchor; it is
 * given up when no unit comes for as long as 256 take.
 *
 * The detector does not measure how long steps take: a program may run ahead of the device
 * (steps/step_time.h measures that). Validations of a single batch, every few steps, may count. Of
 * programs that launch more than 1024 functions in a step, several are taken for one.
 *
 * A step is found by the functions that return, not by the exact sequence. Batches vary in length,
 * streams interleave, optimizers are left out, and validations lie between, so sequences repeat
 * exactly only in the simplest programs. A function whose returns split the launches into intervals
 * that contain most other functions, some of them always as often, is an anchor. Layers and other
 * loops within a step fail that, because the backward pass has other functions. A candidate is
 * counted silently for 2 s, or 256 units and a second, and a loop within a step shows by then. Its
 * functions are muted, so that the history reaches further back, and the search goes on. A
 * validation is told by the functions it lacks, and an optimizer behind several micro-batches by
 * coming with every k-th. Launches do not tell a validation that was compiled on its own from an
 * optimizer: k decides.
 */
#ifndef SPILLWAY_STEP_H
#define SPILLWAY_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct step_detector;

struct step {
	uint64_t number; /* steps so far; fewer once they turn out to be parts of one */
	bool is_whole;   /* nothing else was launched since the end of the step before */
	bool is_first; /* of these: earlier figures of how long steps take are of another pattern */
	uint64_t first; /* where is_first: so many had ended when these began */
	uint64_t
	    first_ns; /* likewise: when that was, by the clock of step_launch(); 0: not known */
};

/* Makes a detector of at most 96 KiB, for free(). NULL: no memory. */
struct step_detector *step_create(void);

/*
 * Takes one launch of a kernel or graph. function: any value that is the same for each launch of
 * it. shape: a value that tells its grids apart, for example the number of threads; 0 for a graph.
 * now_ns: of any clock that does not run backwards. Returns whether a step has ended with this
 * launch; *ended says which. One thread calls at a time.
 */
bool step_launch(struct step_detector *detector, uint64_t function, uint64_t shape, uint64_t now_ns,
                 struct step *ended);

#endif
