/* SPDX-License-Identifier: MIT */
/*
 *  The facts of a refusal, an allocation that was answered with out of memory, and the sentence
 *  that tells a user of it. The log, `stat` and the summary of `run` print the same sentence.
 */
#ifndef SPILLWAY_REFUSED_H
#define SPILLWAY_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ledger/codes.h"

#define REFUSED_NO_LIMIT UINT64_MAX

struct refused {
	enum refusal_reason reason;
	uint64_t bytes;   /* asked for; 0: not known */
	uint64_t lacking; /* of them, or beyond them: those for which there was no room */
	uint64_t limit;   /* the one that refused; REFUSED_NO_LIMIT: none did, or it is not known */
};

/* Returns whether a process warns of its first refusal for this reason, by refused_text(). */
bool refused_is_warned(enum refusal_reason reason);
/* Returns the reason in words: "host memory is used up". */
const char *refused_because(enum refusal_reason reason);
/*
 * Writes "refused 12 MiB for an array: ... (limit 10 MiB, 2 MiB too little). Raise it with ...".
 * what is " for an array", or "". Returns buf.
 */
const char *refused_text(const struct refused *refused, const char *what, char *buf, size_t size);

#endif
