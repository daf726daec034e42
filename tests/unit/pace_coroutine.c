/* SPDX-License-Identifier: MIT */
/* Coroutines by ucontext; sanitizers are told, lest they take one stack for another. */
#include "tests/unit/pace_coroutine.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* The coroutines that hand over, and to which. */
static struct coroutine *leaving, *entering;

static void tell_before(struct coroutine *from, struct coroutine *to)
{
	leaving = from;
	entering = to;
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(&from->sanitizer, to->stack ? to->stack : to->outside,
	                               to->stack ? to->size : to->outside_size);
#endif
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(to->sanitizer, 0);
#endif
}

static void tell_after(void)
{
#ifdef __SANITIZE_ADDRESS__
	const void *bottom;
	size_t size;

	__sanitizer_finish_switch_fiber(entering->sanitizer, &bottom, &size);
	if (!leaving->stack) {
		leaving->outside = bottom;
		leaving->outside_size = size;
	}
#endif
}

static void begin(void)
{
	tell_after();
	entering->body();
}

void coroutine_make(struct coroutine *c, void *stack, size_t size, void (*body)(void))
{
	*c = (struct coroutine){.stack = stack, .size = size, .body = body};
#ifdef __SANITIZE_THREAD__
	c->sanitizer = __tsan_create_fiber(0);
#endif
	getcontext(&c->registers);
	c->registers.uc_stack.ss_sp = stack;
	c->registers.uc_stack.ss_size = size;
	makecontext(&c->registers, begin, 0);
}

void coroutine_adopt(struct coroutine *c)
{
	*c = (struct coroutine){.stack = NULL};
#ifdef __SANITIZE_THREAD__
	c->sanitizer = __tsan_get_current_fiber();
#endif
}

void coroutine_switch(struct coroutine *from, struct coroutine *to)
{
	tell_before(from, to);
	swapcontext(&from->registers, &to->registers);
	tell_after();
}
