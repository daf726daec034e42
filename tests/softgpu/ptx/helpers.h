/* SPDX-License-Identifier: MIT */
/*
 * Threads of the host that help with a grid. They are started when first needed and stay for the
 * next grid; a grid that finishes before one has come to help waits for none.
 */
#ifndef SOFTGPU_PTX_HELPERS_H
#define SOFTGPU_PTX_HELPERS_H

#include <stdbool.h>
#include <stdint.h>

struct offer {
	struct offer *next;
	void (*run)(void *cookie); /* on a helper's thread */
	void *cookie;
	uint32_t wanted;  /* helpers that may still come */
	uint32_t running; /* helpers at work */
};

/* Up to offer->wanted helpers call run(), each once, whenever they find time. */
void helpers_offer(struct offer *offer);
/*
 * Nobody else begins. True: nobody is at work any more; false: after this time somebody still is.
 */
bool helpers_withdraw(struct offer *offer, uint32_t nanoseconds);

#endif
