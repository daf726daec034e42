/* SPDX-License-Identifier: MIT */
/*
 * Judging whether the loader would put the shim into a program.
 */
#ifndef SPILLWAY_PROGRAM_H
#define SPILLWAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Follows scripts to their interpreter. message has the finding, or the objection: static, set-uid
 * to another user, with capabilities, of another machine, for musl, with a loader that is not
 * there, not executable, not there.
 */
bool program_can_be_shimmed(const char *program, char *message, size_t size);

#endif
