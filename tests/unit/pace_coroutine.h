/* SPDX-License-Identifier: MIT */
/*
 * Coroutines of the world's one thread: each has a stack, and runs until it hands over to another.
 */
#ifndef PACE_COROUTINE_H
#define PACE_COROUTINE_H

#include <stddef.h>
#include <ucontext.h>

struct coroutine {
	ucontext_t registers;
	void *stack; /* NULL: that of the program itself */
	size_t size;
	void (*body)(void);
	void *sanitizer;     /* what it knows of the coroutine */
	const void *outside; /* the program's own stack, where there is a sanitizer */
	size_t outside_size;
};

/* body must never return. The stack is the caller's. */
void coroutine_make(struct coroutine *c, void *stack, size_t size, void (*body)(void));
/* For the code that runs already. */
void coroutine_adopt(struct coroutine *c);
/* Returns when somebody switches back to `from`. */
void coroutine_switch(struct coroutine *from, struct coroutine *to);

#endif
