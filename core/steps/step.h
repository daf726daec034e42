/*
 * Step detection: the period of the launch sequence, a mini-batch, without help from the program.
 *
 * Nothing here has a clock, takes a lock, calls the driver or allocates after creation: fed the same launches, a
 * detector says the same. A launch costs one look into a table, some 10 ns; while a pattern is sought the history is
 * looked through now and then, which takes up to some milliseconds.
 *
 * history   the newest launches, of all functions, or where a step is long, of those that are launched seldom
 * anchor    a function whose return closes a unit: with most of its returns came most of what is launched, some functions
 *           always as often. Of all such, the one that returns most often. Grids are not looked at (batches vary), but
 *           where a few functions do everything
 * unit      from one return to the next, if most of the functions are in it that units have: a validation's forward
 *           passes alone are none. One with much that does not belong to it counts but is not timed
 * closer    with accumulated gradients units are micro-batches: a function that is in no other unit but in every k-th
 *           ends the step, and where it is left out (loss scaling) the k-th unit does. k is at most 8, or 16, 32 or 64: a
 *           validation that was compiled on its own and runs every 10 steps looks the same otherwise
 *
 * A pattern is tried before it is trusted: for 2 s, or for 256 units and a second, or for 4096 units, and for up to 10 s
 * while something may turn out to close steps. Its steps are counted from its beginning, and told from then on. It may
 * change a little, and another function may become its anchor; it is given up when much is launched that belongs to no
 * unit, or the anchor stays away for 256 of them.
 *
 * What it cannot know: the launches of a program that runs ahead of the device say little about single steps; their mean
 * is right. Validations of a single batch, every few steps, may count. Of programs that launch more than 512 functions in
 * a step, several are taken for one.
 */
#ifndef SPILLWAY_STEP_H
#define SPILLWAY_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct step_detector;

struct step {
	uint64_t number;  /* steps so far; fewer once they turn out to be parts of one */
	uint64_t time_ns; /* from the end of the step before; 0: other work came between */
	uint64_t mean_ns; /* of the newest timed steps, several hundred; 0: there are none yet */
};

/* NULL: no memory. At most 64 KiB. Freed by step_destroy(), which accepts NULL. */
struct step_detector *step_create(void);
void step_destroy(struct step_detector *detector);

/*
 * One launch of a kernel or graph. function: what was launched, by any value that stays the same; shape: what tells its
 * grids apart, step_shape() or the number of threads; 0 for a graph. now_ns: of any clock that does not run backwards. True: a step has ended with
 * this launch, and *ended says which. The caller sees to it that one thread calls at a time.
 */
bool step_launch(struct step_detector *detector, uint64_t function, uint64_t shape, uint64_t now_ns,
                 struct step *ended);

/* The newest step; number 0: there is none. */
struct step step_newest(const struct step_detector *detector);

static inline uint64_t step_shape(const unsigned int grid[3], const unsigned int block[3])
{
	uint64_t hash = grid[0];

	hash = hash * 0x9e3779b97f4a7c15u + grid[1];
	hash = hash * 0x9e3779b97f4a7c15u + grid[2];
	hash = hash * 0x9e3779b97f4a7c15u + block[0];
	hash = hash * 0x9e3779b97f4a7c15u + block[1];
	return hash * 0x9e3779b97f4a7c15u + block[2];
}

#endif
