/* SPDX-License-Identifier: MIT */
/* Processes, their jobs and pacers, and the work of the shim's hooks for them. */
#include <stdlib.h>
#include <string.h>

#include "core/pace/watch.c" /* pacer_watch(), too */
#include "tests/unit/pace_world.h"

enum { KEPT = 4096 };

struct turns world_turns[WORLD_DEVICES];
static struct job *jobs[WORLD_PROCESSES];
static int job_count;
/* A pacer lives as long as its process: these outlive their world. */
static struct process *volatile kept[KEPT]; /* nobody reads it but a leak checker */
static int kept_count;

struct job *world_job(void)
{
	struct job *job = calloc(1, sizeof(*job));

	job->number = (uint64_t)job_count + 1;
	jobs[job_count++] = job;
	return job;
}

/* --- the watcher --- */

/* The watcher's words are of the one process that runs. */
void process_enter(void)
{
	const struct process *p = world.running->process;

	watch_sleeps = p && p->watcher_rests;
}

void process_call_watcher(void)
{
	struct process *p = world.running->process;

	if (!p)
		return;
	p->watcher_rests = false;
	p->launched++;
	threads_wake_word(&p->launched);
}

static void watch_process(void *argument)
{
	struct process *p = argument;

	while (!p->has_exited) {
		uint64_t soonest = 0;
		uint32_t seen = p->launched;

		p->watcher_rests = false;
		p->watcher_looks++;
		for (int i = 0; i < WORLD_DEVICES; i++) {
			uint64_t ns = p->pacer[i] ? pacer_watch(p->pacer[i]) : 0;

			if (ns && (!soonest || ns < soonest))
				soonest = ns;
		}
		p->watcher_rests = !soonest;
		world_trace("again in %.3f ms", (double)soonest / 1e6);
		thread_wait_word("watches", &p->launched, seen,
		                 world.now + (soonest ? soonest : 1 * S));
	}
}

/* --- processes --- */

struct process *process_create(struct job *job, uint32_t devices)
{
	struct process *p = calloc(1, sizeof(*p));

	if (world.processes == WORLD_PROCESSES || kept_count == KEPT)
		world_fail("too many processes");
	kept[kept_count++] = p;
	p->index = world.processes;
	world.process[world.processes++] = p;
	p->job = job;
	for (int i = 0; i < WORLD_DEVICES; i++) {
		struct pacer_place place = {.turns = &world_turns[i],
		                            .lanes = &job->lanes,
		                            .lane = job->processes,
		                            .device = i,
		                            .owner = (uint64_t)p->index + 1,
		                            .job = job->number};

		if (!(devices & 1u << i))
			continue;
		p->tenant[i] = tenant_create(p, i);
		p->context[i] = (CUcontext)context_create(p->tenant[i]);
		p->device[i].handle = i;
		p->device[i].index = i;
		p->device[i].statistics = &p->counters[i];
		p->device[i].ledger = &p->ledger[i];
		p->pacer[i] = pacer_create(i, p->device[i].statistics);
		pacer_meet(p->pacer[i], &place);
		p->settings[i].priority = PRIORITY_NORMAL;
		process_set(p, i, 100, POLICY_CAP);
	}
	job->processes++;
	thread_begin(p, "watcher", watch_process, p);
	return p;
}

void process_set(struct process *p, int gpu, double share, int policy)
{
	p->settings[gpu] = (struct pacer_settings){.share = (uint32_t)(share * 1000 + 0.5),
	                                           .window_ns = 100 * MS,
	                                           .policy = policy,
	                                           .priority = p->settings[gpu].priority,
	                                           .gives_way = p->settings[gpu].gives_way};
	pacer_set(p->pacer[gpu], &p->settings[gpu]);
}

/* --- peer records --- */

/* Copies the peer records of the other processes that are there. */
static int copy_peers(struct peers *peers, uint64_t now)
{
	peers->count = 0;
	for (int i = 0; i < world.processes; i++) {
		struct process *p = world.process[i];

		for (int gpu = 0; gpu < WORLD_DEVICES; gpu++) {
			struct peers_other *other = &peers->other[peers->count];
			const struct peer_record *record = &p->record[gpu].now;

			if (&p->others[gpu] == peers || !record->version || p->is_dead ||
			    p->has_exited || gpu != (int)peers->own_token)
				continue;
			*other = (struct peers_other){.record = *record, .token = record->token};
			other->is_silent = now > record->beat_ns + PEER_SILENT_NS;
			peers->count++;
		}
	}
	return peers->count;
}

void process_share(struct process *p, int gpu, int priority, bool gives_way)
{
	struct peer_record *record = &p->record[gpu].now;
	const struct pacer_peers peers = {.own = &p->record[gpu],
	                                  .others = &p->others[gpu],
	                                  .look = copy_peers,
	                                  .copy = copy_peers};

	lock_init(&p->record[gpu].lock);
	record->version = PEER_VERSION;
	record->token = (uint64_t)p->index + 1;
	record->priority = (uint8_t)priority;
	record->slowdown_ppm = 20000;
	record->working = PEER_UNKNOWN;
	/* Here a token is a device: those of others are passed over. */
	p->record[gpu].place.token = (uint64_t)gpu;
	p->settings[gpu].priority = priority;
	p->settings[gpu].gives_way = gives_way;
	pacer_set(p->pacer[gpu], &p->settings[gpu]);
	pacer_share(p->pacer[gpu], &peers);
	pacer_heed(p->pacer[gpu], priority != PRIORITY_OPPORTUNISTIC);
}

void process_stop(struct process *p)
{
	p->is_stopped = true;
}

void process_continue(struct process *p)
{
	p->is_stopped = false;
	threads_of_process_go_on(p);
}

void process_kill(struct process *p)
{
	p->is_dead = true;
	threads_of_process_end(p);
	for (int i = 0; i < WORLD_DEVICES; i++) {
		if (p->tenant[i])
			tenant_vanish(p->tenant[i]);
	}
}

void process_exit(struct process *p)
{
	p->has_exited = true;
	for (int i = 0; i < WORLD_DEVICES; i++) {
		if (p->pacer[i])
			pacer_let_go(p->pacer[i]);
	}
	process_call_watcher();
}

void processes_start(void)
{
	for (int i = 0; i < WORLD_DEVICES; i++) {
		world_turns[i] =
		    (struct turns){.version = TURNS_VERSION, .size = sizeof(world_turns[i])};
		memcpy(world_turns[i].magic, "SPILTURN", sizeof(world_turns[i].magic));
	}
	job_count = 0;
}

void processes_end(void)
{
	for (int i = 0; i < job_count; i++)
		free(jobs[i]);
}

/* --- what the hooks do --- */

static struct process *self(void)
{
	return world.running->process;
}

static CUcontext current_context(void)
{
	CUcontext context = NULL;

	driver.cuCtxGetCurrent(&context);
	return context;
}

static int current_device(void)
{
	const struct gpu_context *c = (struct gpu_context *)current_context();

	return c && !c->is_destroyed ? c->tenant->gpu->index : -1;
}

void call_use(int gpu)
{
	world.running->contexts = 0;
	driver.cuCtxPushCurrent_v2(self()->context[gpu]);
}

void call_launch(CUstream stream, const struct item *kernel, uint64_t key)
{
	struct process *p = self();
	int gpu = current_device();
	struct pacer *pacer = gpu >= 0 ? p->pacer[gpu] : NULL;
	struct pacer_launch launch = {.context = current_context(), .key = key};

	if (pacer)
		statistics_add(&p->device[gpu].statistics->launches, 1);
	if (!pacer || !pacer_is_pacing(pacer)) {
		driver_launch(stream, kernel);
		return;
	}
	launch.stream = stream ? stream : CU_STREAM_LEGACY;
	process_enter();
	pacer_before(pacer, &launch);
	driver_launch(stream, kernel);
	pacer_after(pacer, &launch);
}

static void ends_here(void)
{
	int gpu = current_device();
	struct process *p = self();

	if (gpu >= 0 && p->pacer[gpu] && pacer_is_pacing(p->pacer[gpu]))
		pacer_break(p->pacer[gpu], current_context());
}

void call_synchronize_stream(CUstream stream)
{
	struct stream *s = current_device() >= 0 ? stream_of(stream) : NULL;

	if (!s)
		return;
	ends_here();
	thread_wait_for("synchronizes a stream", s->context->tenant, stream_is_idle, s);
}

void call_synchronize(void)
{
	int gpu = current_device();

	if (gpu < 0)
		return;
	ends_here();
	thread_wait_for("synchronizes", self()->tenant[gpu], tenant_is_idle, self()->tenant[gpu]);
}

void call_record(CUevent event, CUstream stream)
{
	ends_here();
	driver.cuEventRecord(event, stream);
}

void call_stream_wait(CUstream stream, CUevent event)
{
	struct stream *s = stream_of(stream);
	struct event *e = (struct event *)event;

	if (!s)
		return;
	ends_here();
	thread_work(1 * US);
	stream_push(s, &(struct item){
	                   .kind = ITEM_WAIT, .from = world.now, .event = e, .record = e->records});
}

void call_host_function(CUstream stream, void (*call)(void *), void *argument, uint64_t ns)
{
	struct stream *s = stream_of(stream);

	if (!s)
		return;
	ends_here();
	thread_work(1 * US);
	stream_push(s, &(struct item){.kind = ITEM_HOST,
	                              .from = world.now,
	                              .left_ns = ns,
	                              .call = call,
	                              .argument = argument});
}

void call_destroy_context(int gpu)
{
	struct process *p = self();
	struct gpu_context *c = (struct gpu_context *)p->context[gpu];

	pacer_end_context(p->pacer[gpu], p->context[gpu], CONTEXT_LEAVES);
	thread_wait_for("destroys a context", c->tenant, tenant_is_idle, c->tenant);
	c->is_destroyed = true;
	pacer_end_context(p->pacer[gpu], p->context[gpu], CONTEXT_IS_GONE);
	p->context[gpu] = (CUcontext)context_create(c->tenant);
}
