/* SPDX-License-Identifier: MIT */
/*
 * The recording driver's book, exported by it as `recorder`: the arguments with which each entry
 * point was called.
 */
#ifndef SPILLWAY_RECORDER_H
#define SPILLWAY_RECORDER_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/attach.h"

enum { RECORDER_WORDS = 16 };

struct record {
	_Atomic unsigned int calls;
	uint64_t
	    words[RECORDER_WORDS]; /* of the last call, as the calling convention passed them */
};

struct recorder {
	_Atomic int answer; /* of all but the few calls that recorder.c answers by itself */
	struct record row[ENTRY_COUNT];
};

#endif
