/* SPDX-License-Identifier: MIT */
/*
 * Bells: words in memory that several processes share, by which one wakes a thread of another.
 *
 * A thread sleeps until any of several words is rung. Each word may lie in another file. A process
 * that may only read the file can ring as well, because the kernel asks for no more. A ring that
 * changes no word is lost where no thread sleeps: bells_ring() tells the caller. For example, the
 * sharing thread sleeps on its own peer record's bell and on the word that a refused call rings.
 */
#ifndef SPILLWAY_BELLS_H
#define SPILLWAY_BELLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BELLS_MAX = 32 };

struct bells {
	int count;
	struct {
		_Atomic uint32_t *word;
		uint32_t seen;
	} of[BELLS_MAX];
};

/* Adds a word that is expected to be `seen`. NULL, or one too many, is not added. */
void bells_add(struct bells *bells, _Atomic uint32_t *word, uint32_t seen);
/*
 * Sleeps until a word is rung or differs from the seen value, or until the deadline
 * (CLOCK_MONOTONIC). Returns whether it was rung. Where the kernel waits for one word alone (before
 * Linux 5.16) that is the first.
 */
bool bells_wait(const struct bells *bells, uint64_t deadline_ns);
/* Returns whether bells_wait() heeds all words. */
bool bells_are_all_heard(const struct bells *bells);
/* Returns whether this kernel waits for several words; else errno says why. */
bool bells_can_be_several(void);
/* Wakes the threads that sleep for this word and leaves it as it is. Returns how many they are. */
int bells_ring(_Atomic uint32_t *word);

#endif
