/* SPDX-License-Identifier: MIT */
/*
 * The conductor: it starts the workers, stops, goes on with and kills them, and changes their
 * limits; by dice of its own.
 */
#ifndef CHAOS_CONDUCTOR_H
#define CHAOS_CONDUCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/chaos/board.h"
#include "tests/chaos/dice.h"

/* Where the build is, and what was done so far. */
struct conductor {
	char build[600], folder[600];
	uint64_t kills, stops, lives, sets, sets_held, tools_killed;
};

extern struct conductor conductor;

/* Longer than anything takes; what hangs is ended so. */
enum { PATIENCE_S = 120 };

_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t monotonic_ns(void);
void nap_ms(int ms);

/* settings.c: a change by the tool now and then, one at a time for each job. */
void settings_begin(void);
void settings_tick(struct dice *dice);
/* Nobody is paused any more. */
void settings_end(void);
/* Returns whether `pid` was a tool that has ended so. */
bool settings_reaped(pid_t pid, int status);

/* A process of no job that begins and ends at once. */
void run_one(void);

/* after.c: all have died; what is left of them? */
void check_after(void);

/* Starts the tool with these words; its output goes to a file. */
pid_t start_tool(const char *output, const char *const *words);

#endif
