/* SPDX-License-Identifier: MIT */
/* Measures of the truth. */
#include "tests/unit/pace_world.h"

/* Walks over a tenant's stretches as a point in time moves on. */
struct walk {
	const struct tenant *tenant;
	size_t i;      /* the first stretch that ends after `at` */
	uint64_t busy; /* before that stretch */
};

/* Busy time up to `at`, which never goes back. */
static uint64_t walk_to(struct walk *w, uint64_t at)
{
	const struct tenant *t = w->tenant;

	while (w->i < t->truths && t->truth[w->i].end <= at) {
		w->busy += t->truth[w->i].end - t->truth[w->i].begin;
		w->i++;
	}
	return w->i < t->truths && t->truth[w->i].begin < at ? w->busy + at - t->truth[w->i].begin
	                                                     : w->busy;
}

uint64_t truth_busy(struct tenant *tenant, uint64_t from, uint64_t to)
{
	struct walk a = {.tenant = tenant}, b = a;

	tenant_note(tenant);
	return walk_to(&b, to) - walk_to(&a, from);
}

static void judge(struct window *w, struct walk walk[2], uint64_t at, uint64_t length)
{
	uint64_t before = walk_to(&walk[0], at);
	double held = 100.0 * (double)(walk_to(&walk[1], at + length) - before) / (double)length;

	if (held < w->least) {
		w->least = held;
		w->least_at = at;
	}
	if (held > w->most) {
		w->most = held;
		w->most_at = at;
	}
}

/* Extremes are where a window begins or ends with a stretch: both kinds in order of time. */
struct window truth_windows(struct tenant *t, uint64_t from, uint64_t to, uint64_t length)
{
	struct window w = {.least = 1e9, .most = -1};
	struct walk walk[2] = {{.tenant = t}, {.tenant = t}};
	size_t a = 0, b = 0; /* edges: even: begin of stretch i / 2, odd: its end */

	tenant_note(t);
	if (to < from + length)
		world_fail("no window fits into the time looked at");
	judge(&w, walk, from, length);
	while (a < 2 * t->truths || b < 2 * t->truths) {
		uint64_t edge_a = UINT64_MAX, edge_b = UINT64_MAX, at;

		if (a < 2 * t->truths)
			edge_a = a % 2 ? t->truth[a / 2].end : t->truth[a / 2].begin;
		if (b < 2 * t->truths) {
			edge_b = b % 2 ? t->truth[b / 2].end : t->truth[b / 2].begin;
			edge_b = edge_b > length ? edge_b - length : 0;
		}
		if (edge_a <= edge_b)
			a++;
		else
			b++;
		at = edge_a < edge_b ? edge_a : edge_b;
		if (at >= from && at <= to - length)
			judge(&w, walk, at, length);
	}
	judge(&w, walk, to - length, length);
	return w;
}

uint64_t truth_longest(struct tenant *t, uint64_t from, uint64_t to, uint64_t gap, uint64_t *at)
{
	uint64_t longest = 0, begin = 0, end = 0;

	tenant_note(t);
	for (size_t i = 0; i < t->truths; i++) {
		const struct truth *s = &t->truth[i];

		if (s->begin < from || s->end > to)
			continue;
		if (!end || s->begin > end + gap)
			begin = s->begin;
		end = s->end;
		if (end - begin > longest) {
			longest = end - begin;
			*at = begin;
		}
	}
	return longest;
}

uint64_t gpu_idle(int gpu, uint64_t from, uint64_t to)
{
	struct gpu *g = world.gpu[gpu];
	uint64_t busy = 0;

	/* Only one tenant has the device at a time. */
	for (int i = 0; i < g->tenants; i++)
		busy += truth_busy(g->tenant[i], from, to);
	return to - from - busy;
}
