/* SPDX-License-Identifier: MIT */
/*
 * Programs without a process slot: processes that use a GPU and are in no job. Spillway is not in
 * them, so that no limit holds for them.
 *
 * NVML lists the processes of each GPU, and segments list the slots. A process that has
 * only just begun has no slot yet, and one that has ended may be listed for a moment: a
 * process is named when two looks, UNMANAGED_APART_NS apart or more, find it without a slot.
 *
 * For example, a program that was started without the preload and computes for a minute is named
 * within two looks. "none" is said only where each process of NVML's list could be judged. It could
 * not where it lives in another PID namespace than we do, or where its user's jobs are out of
 * reach.
 */
#ifndef SPILLWAY_UNMANAGED_H
#define SPILLWAY_UNMANAGED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/view/node.h"

#define UNMANAGED_APART_NS 1000000000ull

struct unmanaged_process {
	pid_t pid;
	uint64_t started; /* in the kernel's ticks since boot: a pid may come again */
	uid_t owner;
	char user[NODE_USER_MAX], command[64];
	char uuid[96];  /* of the GPU */
	uint64_t bytes; /* UINT64_MAX: NVML does not know */
	uint64_t seen_ns;
};

struct unmanaged {
	bool is_known;  /* NVML is there */
	int not_judged; /* processes of which it is not known whether they have a slot */
	struct unmanaged_process *process;
	int count; /* those that two looks have found */
	/* private: the findings of the look before, named or not */
	struct unmanaged_process *suspect;
	int suspects;
};

/* Looks once more. {0} before the first look; unmanaged_free() after the last. */
void unmanaged_look(struct unmanaged *unmanaged);
/* Looks once, and a second time where that is needed to name a process: it waits meanwhile. */
void unmanaged_look_twice(struct unmanaged *unmanaged);
void unmanaged_free(struct unmanaged *unmanaged);

/* A slot of a living process, by its own number in its PID namespace, and its user. */
struct slot_of {
	uid_t owner;
	pid_t pid;
};
/* The known slots. */
struct slots_known {
	const struct slot_of *slot;
	int count;
	const uid_t *unread; /* users with jobs out of reach */
	int unread_count;
	bool reaches_all; /* the jobs of other users are seen, too */
	uid_t own;
};
enum slot_verdict { SLOT_HELD, SLOT_MISSING, SLOT_NOT_KNOWN };
/* Judges a process: inside is its number in its own namespace, 0: not known. A pure function. */
enum slot_verdict unmanaged_check(const struct slots_known *known, uid_t owner, pid_t inside);
/*
 * Takes the suspects of a look at a time for those of the one before. Names those that both found,
 * at least UNMANAGED_APART_NS apart. A pure function but for memory.
 */
void unmanaged_settle(struct unmanaged *unmanaged, struct unmanaged_process *found, int count,
                      uint64_t now_ns);

#endif
