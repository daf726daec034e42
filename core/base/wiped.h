/* SPDX-License-Identifier: MIT */
/*
 * Wiped pages: a forked child finds them zero, however it was forked (fork, _Fork, raw clone). They
 * are pages of their own that the kernel wipes. A launch looks at them, and an unpaced launch at
 * nothing else. A child takes part in nothing, so no action follows its calls. The process number
 * need not be asked for. Each field is its owner's to read and write.
 *
 * Before Linux 4.14 the process number is compared instead, off the launch path.
 */
#ifndef SPILLWAY_WIPED_H
#define SPILLWAY_WIPED_H

#include <stdatomic.h>
#include <stdbool.h>

/* The largest there is. */
#if defined(__aarch64__)
#define WIPED_PAGE 65536
#else
#define WIPED_PAGE 4096
#endif
enum { WIPED_GROUPS = 8 };

struct action_list;
struct counters;

struct wiped {
	_Alignas(WIPED_PAGE) _Atomic bool is_active; /* this process takes part in the job: job.h */
	_Atomic(struct counters *) statistics;       /* of the only device; NULL: ask: job.h */
	/* the lists by group; NULL: nothing acts. registry/actions.h */
	_Atomic(const struct action_list *) actions[WIPED_GROUPS];
};
extern struct wiped wiped;

/*
 * Has the kernel wipe the pages in forked children from here on. Returns false where it cannot
 * (before Linux 4.14).
 */
bool wiped_start(void);
/* Wipes the pages by hand. */
void wiped_clear(void);

#endif
