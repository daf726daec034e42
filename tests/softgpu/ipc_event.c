/* SPDX-License-Identifier: MIT */
/*
 * Events that several processes have: cuIpcGetEventHandle, cuIpcOpenEventHandle. Recordings and
 * completions stand in the machine's books. A stream that waits sleeps there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/softgpu/ipc.h"

struct shared_event {
	struct shared_name name;
	int references; /* a process holds it once, however often it opened it */
	struct shared_event *prev, *next;
};

struct ipc_event {
	uint32_t magic;
	int32_t pid;
	struct shared_name name;
};

static struct shared_event *events;

static struct shared_event *add(const struct shared_name *name)
{
	struct shared_event *event = calloc(1, sizeof(*event));
	if (!event) {
		machine_event_unhold(name);
		return NULL;
	}
	event->name = *name;
	event->references = 1;
	DL_APPEND(events, event);
	return event;
}

struct shared_event *shared_event_new(void)
{
	struct shared_name name;
	return machine_event_new(&name) ? add(&name) : NULL;
}

void shared_event_release(struct shared_event *event)
{
	if (--event->references)
		return;
	machine_event_unhold(&event->name);
	DL_DELETE(events, event);
	free(event);
}

void shared_event_export(const struct shared_event *event, CUipcEventHandle *handle)
{
	struct ipc_event what = {.magic = IPC_EVENT, .pid = getpid(), .name = event->name};
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &what, sizeof(what));
}

struct shared_event *shared_event_import(const CUipcEventHandle *handle)
{
	struct ipc_event what;
	memcpy(&what, handle, sizeof(what));
	/* A process does not open its own events. */
	if (what.magic != IPC_EVENT || what.pid == getpid())
		return NULL;
	struct shared_event *event;
	DL_FOREACH (events, event) {
		if (event->name.index == what.name.index &&
		    event->name.generation == what.name.generation) {
			event->references++;
			return event;
		}
	}
	return machine_event_hold(&what.name) ? add(&what.name) : NULL;
}

/* A recording, or a wait for one. */
struct event_work {
	struct work work;
	struct context *context;
	struct shared_event *event;
	uint32_t number;
};

static CUresult run_record(struct work *work, CUresult broken)
{
	(void)broken;
	const struct event_work *record = (const struct event_work *)work;
	machine_event_done(&record->event->name, record->number);
	return CUDA_SUCCESS;
}

static CUresult run_wait(struct work *work, CUresult broken)
{
	(void)broken;
	const struct event_work *wait = (const struct event_work *)work;
	while (!machine_event_is_done(&wait->event->name, wait->number)) {
		pthread_mutex_lock(&driver_lock);
		bool over = !wait->context->alive;
		pthread_mutex_unlock(&driver_lock);
		if (over)
			break;
		machine_event_wait(&wait->event->name, wait->number);
	}
	return CUDA_SUCCESS;
}

/* A recording that could not be queued is done: nobody shall wait for it. */
static void release(struct work *work)
{
	const struct event_work *what = (const struct event_work *)work;
	if (work->run == run_record)
		machine_event_done(&what->event->name, what->number);
	shared_event_release(what->event);
}

static struct event_work *work_new(struct shared_event *event, struct context *context,
                                   CUresult (*run)(struct work *, CUresult))
{
	struct event_work *work = calloc(1, sizeof(*work));
	if (!work)
		return NULL;
	event->references++;
	work->work.run = run;
	work->work.release = release;
	work->context = context;
	work->event = event;
	return work;
}

struct work *shared_event_record_work(struct shared_event *event, struct context *context)
{
	struct event_work *record = work_new(event, context, run_record);
	if (!record)
		return NULL;
	record->work.even_if_broken = true;
	record->number = machine_event_record(&event->name);
	return &record->work;
}

struct work *shared_event_wait_work(struct shared_event *event, struct context *context)
{
	struct event_work *wait = work_new(event, context, run_wait);
	if (!wait)
		return NULL;
	wait->number = machine_event_last(&event->name);
	return &wait->work;
}

bool shared_event_is_done(const struct shared_event *event)
{
	return machine_event_is_done(&event->name, machine_event_last(&event->name));
}

void shared_event_synchronize(struct shared_event *event)
{
	uint32_t number = machine_event_last(&event->name);
	event->references++;
	while (!machine_event_is_done(&event->name, number)) {
		pthread_mutex_unlock(&driver_lock);
		machine_event_wait(&event->name, number);
		pthread_mutex_lock(&driver_lock);
	}
	shared_event_release(event);
}
