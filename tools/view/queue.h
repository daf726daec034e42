/* SPDX-License-Identifier: MIT */
/*
 * Queue: bounded; many may put in and many take out.
 *
 * Items are the caller's pointers, handed on in order. Every wait has an end. Thread-safe.
 */
#ifndef SPILLWAY_QUEUE_H
#define SPILLWAY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_create(size_t room); /* NULL: no memory, or room is 0 */
/*
 * Destroys a queue that is no longer in use. release() is given the items that are left; NULL:
 * nothing is done with them.
 */
void queue_destroy(struct queue *queue, void (*release)(void *item));
/* Waits for room. Returns 0 or -ETIMEDOUT. */
int queue_put(struct queue *queue, void *item, uint64_t patience_ns);
/* Waits for an item. Returns 0 or -ETIMEDOUT. */
int queue_take(struct queue *queue, void **item, uint64_t patience_ns);
size_t queue_count(struct queue *queue);

#endif
