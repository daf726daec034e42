/* SPDX-License-Identifier: MIT */
/*
 * One call of a driver's function with parameters known by letters (signatures.h), laid out as a
 * compiler would.
 */
#ifndef SPILLWAY_TEST_CALL_H
#define SPILLWAY_TEST_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda/driver.h"

enum { CALL_WORDS = 16, CALL_BUFFER = 4096, CALL_PARAMETERS = 16, CALL_REGISTERS = 6 };

struct call {
	uint64_t words[CALL_WORDS]; /* registers, then stack */
	uint64_t mask[CALL_WORDS];  /* the bits that mean something */
	char *buffers;
};

static inline void put(struct call *call, int at, uint64_t value, uint64_t mask)
{
	call->words[at] = value;
	call->mask[at] = mask;
}

/*
 * Pointers lead to zeroed memory, each to its own; numbers are small and differ from one another.
 */
static inline bool lay_out(struct call *call, const char *parameters)
{
	int in_register = 0, on_stack = CALL_REGISTERS;

	memset(call, 0, sizeof(*call));
	call->buffers = calloc(CALL_PARAMETERS, CALL_BUFFER);
	for (int i = 0; parameters[i]; i++) {
		int *next = in_register < CALL_REGISTERS ? &in_register : &on_stack;
		uint64_t number = 0x10 + (uint64_t)i;

		switch (parameters[i]) {
		case 'p':
			put(call, (*next)++, (uintptr_t)(call->buffers + i * CALL_BUFFER), ~0ull);
			break;
		case 'q':
		case 'w':
			put(call, (*next)++, number, ~0ull);
			break;
		case 'i': /* what lies above the parameter is anyone's */
			put(call, (*next)++, number | 0xabcdef0100000000, 0xffffffff);
			break;
		case 'h':
			put(call, (*next)++, number | 0xabcdef0123450000, 0xffff);
			break;
		case 'b':
			put(call, (*next)++, number | 0xabcdef0123456700, 0xff);
			break;
		case 's': /* 64 bytes on the stack, whatever registers are left */
			for (uint64_t j = 0; j < 8; j++)
				put(call, on_stack++, 0x1122334400 + j, ~0ull);
			break;
		default:
			return false;
		}
	}
	return on_stack <= CALL_WORDS;
}

static inline CUresult make(void *function, const uint64_t *w)
{
	CUresult (*f)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	              uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	              uint64_t, uint64_t) = (__typeof__(f))function;

	return f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
	         w[13], w[14], w[15]);
}

#endif
