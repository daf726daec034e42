/* SPDX-License-Identifier: MIT */
/*
 * Devices: streams in order, kernels side by side, tenants by slices, kernels that spin for each
 * other.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/pace_world.h"

static struct item *head(const struct stream *s)
{
	return &s->item[s->first];
}

static void pop(struct stream *s)
{
	s->first = s->first + 1 == s->room ? 0 : s->first + 1;
	s->count--;
}

static void look_at_all(void)
{
	for (int i = 0; i < WORLD_DEVICES; i++) {
		if (world.gpu[i]->tenants)
			world_appoint(&world.gpu[i]->actor, world.now, world.gpu[i]->actor.act);
	}
}

/* --- the truth --- */

static void note_truth(struct tenant *t, uint64_t begin, uint64_t end)
{
	t->busy_ns += end - begin;
	if (t->truths && t->truth[t->truths - 1].end == begin) {
		t->truth[t->truths - 1].end = end;
		return;
	}
	if (t->truths == t->truth_room) {
		t->truth_room = t->truth_room ? 2 * t->truth_room : 1024;
		t->truth = realloc(t->truth, t->truth_room * sizeof(*t->truth));
	}
	t->truth[t->truths++] = (struct truth){begin, end};
}

static void progress(struct gpu *g)
{
	struct tenant *t = g->active;
	uint64_t since = g->since > g->from ? g->since : g->from;
	uint64_t passed = world.now > since ? world.now - since : 0;

	g->since = world.now;
	if (!t || !t->residents || !passed)
		return;
	note_truth(t, world.now - passed, world.now);
	for (int i = 0; i < t->residents; i++) {
		struct item *k = head(t->resident[i]);

		if (k->spins)
			continue;
		if (k->left_ns < passed)
			world_fail("a kernel ran longer than it lasts");
		k->left_ns -= passed;
		if (k->work)
			*k->work += passed;
	}
}

void tenant_note(struct tenant *tenant)
{
	progress(tenant->gpu);
}

/* --- streams --- */

static bool has_met(const struct item *k)
{
	return k->spin->started[k->step % MEETINGS] >= k->spin->ranks;
}

static void leave(struct tenant *t, struct stream *s)
{
	for (int i = 0; i < t->residents; i++) {
		if (t->resident[i] == s) {
			t->resident[i] = t->resident[--t->residents];
			break;
		}
	}
}

/* Returns whether the head of the stream is done; begins it if it can begin. */
static bool head_is_done(struct stream *s)
{
	struct tenant *t = s->context->tenant;
	struct item *item = head(s);

	if (item->from > world.now)
		return false;
	switch (item->kind) {
	case ITEM_EVENT:
		if (item->event->parts && item->record == item->event->records &&
		    --item->event->parts)
			return true;
		if (item->record > item->event->done)
			item->event->done = item->record;
		item->event->at = world.now;
		return true;
	case ITEM_WAIT:
		return item->event->done >= item->record;
	case ITEM_HOST:
		if (!item->has_begun) {
			item->has_begun = true;
			item->from = world.now + item->left_ns;
			return false;
		}
		item->call(item->argument);
		return true;
	case ITEM_KERNEL:
		if (item->is_resident && !item->left_ns && !item->spins) {
			world_trace("gpu %d process %d: kernel ends", t->gpu->index,
			            t->process->index);
			leave(t, s);
			s->kernels--;
			return true;
		}
		if (!item->is_resident && t->residents < world.settings.concurrency) {
			item->is_resident = true;
			t->resident[t->residents++] = s;
		}
	}
	return false;
}

static bool stream_advance(struct stream *s)
{
	bool done = false, events = false;

	while (s->count && head_is_done(s)) {
		events |= head(s)->kind == ITEM_EVENT;
		pop(s);
		done = true;
	}
	if (events)
		look_at_all(); /* streams of other devices may wait for it */
	return done;
}

static void tenant_advance(struct tenant *t)
{
	bool done, any = false;

	/* Streams take turns in being first, where not all kernels fit. */
	do {
		done = false;
		for (int i = 0; i < t->streams; i++)
			done |= stream_advance(t->stream[(t->turn + i) % t->streams]);
		any |= done;
	} while (done);
	if (any) {
		t->turn = (t->turn + 1) % t->streams;
		threads_look(t);
	}
}

/* --- who has the device --- */

static struct tenant *next_tenant(const struct gpu *g)
{
	int active = 0;

	while (active < g->tenants && g->tenant[active] != g->active)
		active++;
	for (int i = 1; i <= g->tenants; i++) {
		struct tenant *t = g->tenant[(active + i) % g->tenants];

		if (t->residents)
			return t;
	}
	return NULL;
}

static void choose(struct gpu *g)
{
	struct tenant *next = next_tenant(g);

	if (g->active && g->active->residents) {
		if (world.now < g->slice_end)
			return;
		if (next == g->active) { /* alone */
			while (g->slice_end <= world.now)
				g->slice_end += world.settings.slice_ns;
			return;
		}
	}
	if (g->active != next)
		g->slice_end = world.now + world.settings.slice_ns;
	if (next && g->last != next) {
		g->from = world.now + (g->last ? world.settings.handing_ns : 0);
		g->last = next;
	}
	g->active = next;
}

static void begin_kernels(struct gpu *g)
{
	struct tenant *t = g->active;

	for (int i = 0; t && i < t->residents; i++) {
		struct item *k = head(t->resident[i]);

		if (!k->has_begun) {
			k->has_begun = true;
			world_trace("gpu %d process %d: kernel of %.3f ms begins", g->index,
			            t->process->index, (double)k->left_ns / 1e6);
			if (k->spin) {
				k->spins = true;
				k->spin->started[(k->step + MEETINGS / 2) % MEETINGS] = 0;
				k->spin->started[k->step % MEETINGS]++;
				if (has_met(k))
					look_at_all();
			}
		}
		if (k->spins && has_met(k))
			k->spins = false;
	}
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_time(const struct gpu *g)
{
	uint64_t at = UINT64_MAX;
	bool is_wanted = false;

	for (int i = 0; i < g->tenants; i++) {
		const struct tenant *t = g->tenant[i];

		is_wanted |= t->residents && t != g->active;
		for (int j = 0; j < t->streams; j++) {
			const struct stream *s = t->stream[j];

			if (s->count && head(s)->from > world.now)
				at = sooner(at, head(s)->from);
		}
	}
	for (int i = 0; g->active && i < g->active->residents; i++) {
		const struct item *k = head(g->active->resident[i]);

		if (!k->spins)
			at = sooner(at, (world.now > g->from ? world.now : g->from) + k->left_ns);
	}
	if (is_wanted && g->active)
		at = sooner(at, g->slice_end);
	return at;
}

static void gpu_look(struct actor *actor)
{
	struct gpu *g = (struct gpu *)actor;
	uint64_t at;

	world.on_device = true;
	progress(g);
	for (int i = 0; i < g->tenants; i++)
		tenant_advance(g->tenant[i]);
	choose(g);
	begin_kernels(g);
	at = next_time(g);
	world.on_device = false;
	if (at != UINT64_MAX && (!actor->place || at < actor->at))
		world_appoint(actor, at, gpu_look);
}

/* --- for the driver --- */

void stream_push(struct stream *s, const struct item *item)
{
	struct gpu *g = s->context->tenant->gpu;

	if (s->count == s->room) {
		unsigned int room = s->room ? 2 * s->room : 64;
		struct item *ring = malloc(room * sizeof(*ring));

		for (unsigned int i = 0; i < s->count; i++)
			ring[i] = s->item[(s->first + i) % s->room];
		free(s->item);
		s->item = ring;
		s->room = room;
		s->first = 0;
	}
	s->item[(s->first + s->count++) % s->room] = *item;
	s->kernels += item->kind == ITEM_KERNEL;
	if (s->count > 1)
		return;
	/*
	 * Not here and now: whoever pushes may be a thread that holds a lock, or a device that
	 * looks.
	 */
	if (!g->actor.place || item->from < g->actor.at)
		world_appoint(&g->actor, item->from, gpu_look);
}

void event_open(struct event *gate)
{
	gate->done = gate->records;
	look_at_all();
}

bool tenant_is_idle(void *tenant)
{
	const struct tenant *t = tenant;

	for (int i = 0; i < t->streams; i++) {
		if (t->stream[i]->count)
			return false;
	}
	return true;
}

bool stream_is_idle(void *stream)
{
	return !((const struct stream *)stream)->count;
}

struct stream *stream_create(struct gpu_context *context)
{
	struct tenant *t = context->tenant;
	struct stream *s = calloc(1, sizeof(*s));

	if (t->streams == WORLD_STREAMS)
		world_fail("too many streams");
	s->context = context;
	t->stream[t->streams++] = s;
	return s;
}

struct tenant *tenant_create(struct process *process, int gpu)
{
	struct gpu *g = world.gpu[gpu];
	struct tenant *t = calloc(1, sizeof(*t));

	t->process = process;
	t->gpu = g;
	g->tenant[g->tenants++] = t;
	return t;
}

void tenant_vanish(struct tenant *t)
{
	progress(t->gpu);
	for (int i = 0; i < t->streams; i++)
		t->stream[i]->count = t->stream[i]->kernels = 0;
	t->residents = 0;
	world_appoint(&t->gpu->actor, world.now, gpu_look);
}

void devices_start(void)
{
	for (int i = 0; i < WORLD_DEVICES; i++) {
		world.gpu[i] = calloc(1, sizeof(*world.gpu[i]));
		world.gpu[i]->index = i;
		world.gpu[i]->actor.act = gpu_look;
		world.gpu[i]->since = world.now;
	}
}

void devices_end(void)
{
	for (int i = 0; i < WORLD_DEVICES; i++) {
		for (int j = 0; j < world.gpu[i]->tenants; j++) {
			struct tenant *t = world.gpu[i]->tenant[j];

			for (int k = 0; k < t->streams; k++) {
				free(t->stream[k]->item);
				free(t->stream[k]);
			}
			free(t->truth);
			free(t);
		}
		free(world.gpu[i]);
	}
}
