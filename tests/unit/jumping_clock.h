/* SPDX-License-Identifier: MIT */
/*
 * A clock on which each nap lasts 2 ms, however short it was to be, as on a busy machine. Included
 * once by a test program.
 */
#ifndef JUMPING_CLOCK_H
#define JUMPING_CLOCK_H

#include "core/base/clock.h"

#define JUMP_NS 2000000ull

static struct {
	_Atomic uint64_t now_ns;
	_Atomic int naps;
	void (*at_nap)(void); /* what happens meanwhile; NULL: nothing */
} jumping;

static uint64_t jumping_now(void)
{
	return jumping.now_ns;
}

static void jumping_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	(void)word, (void)seen, (void)deadline_ns;
	jumping.now_ns += JUMP_NS;
	jumping.naps++;
	if (jumping.at_nap)
		jumping.at_nap();
}

static void jumping_wake(_Atomic uint32_t *word)
{
	(*word)++;
}

static const struct clock jumping_clock = {jumping_now, jumping_wait, jumping_wake};

static void jumping_start(void)
{
	jumping.now_ns = 1000000000;
	jumping.naps = 0;
	jumping.at_nap = NULL;
	clock_in_use = &jumping_clock;
}

/* How often one naps until a deadline ends. */
static inline int jumps_in_ms(uint64_t ms)
{
	return (int)((ms * 1000000 + JUMP_NS - 1) / JUMP_NS);
}

#endif
