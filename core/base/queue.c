/* The queue: a ring of pointers under one lock. */
#include "core/base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* by the monotonic clock */
	size_t room, first, count;
	bool is_closed;
	void *item[];
};

struct queue *queue_create(size_t room)
{
	pthread_condattr_t attributes;
	struct queue *queue;

	if (room == 0 || room > (SIZE_MAX - sizeof *queue) / sizeof queue->item[0])
		return NULL;
	queue = calloc(1, sizeof *queue + room * sizeof queue->item[0]);
	if (!queue)
		return NULL;
	queue->room = room;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return queue;
}

void queue_destroy(struct queue *queue, void (*release)(void *item))
{
	if (!queue)
		return;
	for (size_t i = 0; release && i < queue->count; i++)
		release(queue->item[(queue->first + i) % queue->room]);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

static struct timespec deadline_in(uint64_t patience_ns)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += (time_t)(patience_ns / 1000000000);
	at.tv_nsec += (long)(patience_ns % 1000000000);
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

/* With the lock held. False: the time is over. */
static bool wait_until(struct queue *queue, const struct timespec *deadline)
{
	return pthread_cond_timedwait(&queue->changed, &queue->lock, deadline) == 0;
}

int queue_put(struct queue *queue, void *item, uint64_t patience_ns)
{
	struct timespec deadline = deadline_in(patience_ns);
	int error = 0;

	pthread_mutex_lock(&queue->lock);
	while (!error && !queue->is_closed && queue->count == queue->room)
		if (!wait_until(queue, &deadline) && queue->count == queue->room)
			error = -ETIMEDOUT;
	if (queue->is_closed)
		error = -EPIPE;
	if (!error) {
		queue->item[(queue->first + queue->count++) % queue->room] = item;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return error;
}

int queue_take(struct queue *queue, void **item, uint64_t patience_ns)
{
	struct timespec deadline = deadline_in(patience_ns);
	int error = 0;

	pthread_mutex_lock(&queue->lock);
	while (!error && !queue->is_closed && queue->count == 0)
		if (!wait_until(queue, &deadline) && queue->count == 0)
			error = -ETIMEDOUT;
	if (queue->count > 0) {
		error = 0;
		*item = queue->item[queue->first];
		queue->first = (queue->first + 1) % queue->room;
		queue->count--;
		pthread_cond_broadcast(&queue->changed);
	} else if (queue->is_closed) {
		error = -EPIPE;
	}
	pthread_mutex_unlock(&queue->lock);
	return error;
}

void queue_close(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->is_closed = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

size_t queue_count(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	size_t count = queue->count;
	pthread_mutex_unlock(&queue->lock);
	return count;
}
