/* SPDX-License-Identifier: MIT */
/*
 * Counting who keeps this process from its turn, and leaving out who does for longer than a job
 * that keeps to the rules would: a turn, or two, and an exchange of a minute on a machine at load.
 * For core/sharing/gang.c.
 */
#ifndef SPILLWAY_SHARING_KEEPING_H
#define SPILLWAY_SHARING_KEEPING_H

#include "core/sharing/line.h"

/* Returns whether a member is another of our job that lives and is not left out. */
bool keeping_is_sibling(struct keepers *keepers, const struct gang_member *own,
                        const struct gang_member *m, uint64_t now_ns);
/* Counts, while we wait or take our turn, the time since the last look. */
void keeping_count(struct keepers *keepers, const struct line *line, const struct gang_member *own,
                   uint64_t elapsed_ns, const struct gang_member *others, int count);

#endif
