/* SPDX-License-Identifier: MIT */
/* The queue: a ring of pointers under one lock. */
#include "tools/view/queue.h"

#include "core/base/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/lock.h"

struct queue {
	LOCK_OF(LEAF) lock;
	pthread_cond_t changed;
	size_t room, first, count;
	void *item[];
};

struct queue *queue_create(size_t room)
{
	struct queue *queue;

	if (room == 0 || room > (SIZE_MAX - sizeof *queue) / sizeof queue->item[0])
		return NULL;
	queue = calloc(1, sizeof *queue + room * sizeof queue->item[0]);
	if (!queue)
		return NULL;
	queue->room = room;
	lock_init(&queue->lock);
	condition_init(&queue->changed);
	return queue;
}

void queue_destroy(struct queue *queue, void (*release)(void *item))
{
	if (!queue)
		return;
	for (size_t i = 0; release && i < queue->count; i++)
		release(queue->item[(queue->first + i) % queue->room]);
	pthread_cond_destroy(&queue->changed);
	lock_destroy(&queue->lock);
	free(queue);
}

int queue_put(struct queue *queue, void *item, uint64_t patience_ns)
{
	struct deadline until = DEADLINE_IN(patience_ns);
	int error = 0;

	lock_acquire(&queue->lock);
	while (!error && queue->count == queue->room)
		if (!condition_wait_until(&queue->changed, &queue->lock, deadline_ends(&until)) &&
		    queue->count == queue->room)
			error = -ETIMEDOUT;
	if (!error) {
		queue->item[(queue->first + queue->count++) % queue->room] = item;
		pthread_cond_broadcast(&queue->changed);
	}
	lock_release(&queue->lock);
	return error;
}

int queue_take(struct queue *queue, void **item, uint64_t patience_ns)
{
	struct deadline until = DEADLINE_IN(patience_ns);
	int error = 0;

	lock_acquire(&queue->lock);
	while (!error && queue->count == 0)
		if (!condition_wait_until(&queue->changed, &queue->lock, deadline_ends(&until)) &&
		    queue->count == 0)
			error = -ETIMEDOUT;
	if (queue->count > 0) {
		error = 0;
		*item = queue->item[queue->first];
		queue->first = (queue->first + 1) % queue->room;
		queue->count--;
		pthread_cond_broadcast(&queue->changed);
	}
	lock_release(&queue->lock);
	return error;
}

size_t queue_count(struct queue *queue)
{
	lock_acquire(&queue->lock);
	size_t count = queue->count;
	lock_release(&queue->lock);
	return count;
}
