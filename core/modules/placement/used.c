/* SPDX-License-Identifier: MIT */
/*
 * Use of memory. Rules: runs inside the user's process; makes no driver call except those of
 * parameters.h.
 */

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/memory/arena/arena.h"
#include "core/modules/placement/touch.h"
#include "core/modules/placement/parameters.h"

/* Addresses of runs, in order. */
struct runs {
	CUdeviceptr *run;
	size_t count, room;
	bool is_blind; /* and more */
	/* Of each kernel, in their order: its node or 0, the addresses it was given, and a 0. */
	struct given {
		CUdeviceptr *word;
		size_t count, room;
		size_t next;   /* the kernel behind the one that was changed last */
		bool is_short; /* of memory, or there are too many: not all are there */
	} given;
};

struct graph {
	const void *handle;
	struct runs runs;
	UT_hash_handle hh;
};

/* Taken before the lock of parameters.h. */
static LOCK_OF(HEAT_GRAPHS) lock = LOCK_FREE;
static struct graph *graphs;
static struct runs captured; /* since a capture became active */
static struct runs asked;    /* by a survey, last */

/* --- sampling --- */

/* A thread keeps this besides; it is apart, because only a sampled thread needs it. */
static __thread struct {
	uint64_t at;    /* CLOCK_MONOTONIC at the last sample, ns */
	uint64_t saved; /* time that was not spent on samples, ns */
	uint32_t mean;  /* of the interval to the next one, launches */
	uint32_t random;
} thread __attribute__((tls_model("initial-exec")));

/* A look of some 0.15 us is counted as so long; so much of it may be saved up. */
enum { LOOK_NS = 100000, MANY = 8, SAVED_MAX = 64 };

static uint32_t heat_draw(void)
{
	uint32_t x = thread.random;

	if (!x)
		x = (uint32_t)(uintptr_t)&thread | 1;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	thread.random = x;
	return x;
}

static uint64_t passed_since_last(void)
{
	uint64_t now = clock_now(), passed = now - thread.at;

	thread.at = now;
	return passed < SAVED_MAX * (uint64_t)LOOK_NS ? passed : SAVED_MAX * (uint64_t)LOOK_NS;
}

/*
 * Intervals are random, because a fixed one would meet the same launches of each step. Their mean
 * follows the time between launches, so that looks take a thousandth or two of it; after a pause
 * each launch is looked at for a while.
 */
static void heat_sampled(void)
{
	uint32_t most = atomic_load_explicit(&heat_sampling, memory_order_relaxed);
	uint64_t saved = thread.saved + passed_since_last();
	uint32_t mean = thread.mean;

	if (saved >= MANY * LOOK_NS)
		mean = 1;
	else if (saved >= LOOK_NS)
		mean /= 2;
	else
		mean *= 2;
	mean = mean > most ? most : mean;
	mean = mean < 1 ? 1 : mean;
	saved = saved > LOOK_NS ? saved - LOOK_NS : 0;
	thread.saved =
	    saved < SAVED_MAX * (uint64_t)LOOK_NS ? saved : SAVED_MAX * (uint64_t)LOOK_NS;
	thread.mean = mean;
	heat_countdown.left = (int32_t)(1 + heat_draw() % (2 * mean - 1));
}

/* --- lists; with the lock held --- */

static void heat_used_add(struct runs *runs, CUdeviceptr run)
{
	size_t low = 0, high = runs->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (runs->run[middle] < run)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < runs->count && runs->run[low] == run)
		return;
	if (runs->count == runs->room) {
		size_t room = runs->room ? runs->room * 2 : 16;
		CUdeviceptr *more =
		    room > HEAT_GRAPH_RUNS ? NULL : realloc(runs->run, room * sizeof(*more));

		if (!more) {
			runs->is_blind = true;
			return;
		}
		runs->run = more;
		runs->room = room;
	}
	memmove(runs->run + low + 1, runs->run + low, (runs->count - low) * sizeof(*runs->run));
	runs->run[low] = run;
	runs->count++;
}

/* Adds an address that a kernel was given, or the 0 behind its last one. */
static void given_add(struct given *given, CUdeviceptr word)
{
	if (given->count == given->room && !given->is_short) {
		size_t room = given->room ? given->room * 2 : 16;
		CUdeviceptr *more =
		    room > HEAT_GIVEN ? NULL : realloc(given->word, room * sizeof(*more));

		given->is_short = !more;
		if (more) {
			given->word = more;
			given->room = room;
		}
	}
	if (!given->is_short)
		given->word[given->count++] = word;
}

/* Returns where the next kernel begins. */
static size_t given_behind(const struct given *given, size_t at)
{
	while (given->word[++at])
		;
	return at + 1;
}

/* Returns the kernel of the same node before this one, or this one. */
static size_t given_find(struct given *given, size_t newest)
{
	for (int pass = 0; pass < 2; pass++, given->next = 0)
		for (size_t at = given->next; at < newest; at = given_behind(given, at))
			if (given->word[at] == given->word[newest])
				return at;
	return newest;
}

/* Has the newest kernel replace the one of its node. That of a captured node is not found. */
static void given_replace(struct given *given, size_t newest)
{
	size_t words = given->count - newest, at;

	if (given->is_short)
		return;
	at = given_find(given, newest);
	given->next = at < newest ? given_behind(given, at) : 0;
	if (given->next && given->next - at != words)
		given->is_short = true;
	else if (given->next)
		memcpy(given->word + at, given->word + newest, words * sizeof(*given->word));
	given->count = newest;
}

static void add_touched(struct runs *runs, const struct heat_touched *touched)
{
	for (uint32_t i = 0; touched->first && i < touched->count; i++)
		heat_used_add(runs, touched->first + i * HEAT_PART);
}

static void heat_used_add_all(struct runs *to, const struct runs *from)
{
	for (size_t i = 0; i < from->count; i++)
		heat_used_add(to, from->run[i]);
	for (size_t i = 0; i < from->given.count; i++)
		given_add(&to->given, from->given.word[i]);
	to->given.is_short |= from->given.is_short;
	to->is_blind |= from->is_blind;
}

static void heat_used_clear(struct runs *runs)
{
	free(runs->run);
	free(runs->given.word);
	*runs = (struct runs){0};
}

/* --- parameters --- */

/* One scan: the smallest range with all that may move in it, so that it is one compare. */
struct scan {
	CUdeviceptr low, size;
	uint32_t now;
	struct runs *runs; /* to which met runs are added; NULL: none */
	uint64_t *value;   /* into which met runs are mixed; NULL: none */
};

static bool begin_scan(struct scan *scan)
{
	CUdeviceptr high = atomic_load_explicit(&touched_span.high, memory_order_relaxed);

	scan->low = atomic_load_explicit(&touched_span.low, memory_order_relaxed);
	for (int i = 0; i < DEVICE_MAX; i++) {
		CUdeviceptr base =
		    atomic_load_explicit(&arena_ranges[i].base, memory_order_acquire);
		CUdeviceptr end = atomic_load_explicit(&arena_ranges[i].end, memory_order_acquire);

		if (!base)
			continue;
		if (base < scan->low)
			scan->low = base;
		if (end > high)
			high = end;
	}
	scan->size = high > scan->low ? high - scan->low : 0;
	scan->now = heat_work();
	return scan->size != 0;
}

static uint64_t used_mix(uint64_t value, uint64_t with)
{
	return (value ^ with) * 0x9e3779b97f4a7c15u;
}

static void scan_words(const struct scan *scan, const void *at, size_t words)
{
	for (const char *p = at; words--; p += sizeof(uint64_t)) {
		struct heat_touched touched;
		uint64_t word;

		memcpy(&word, p, sizeof(word)); /* of any alignment */
		if (word - scan->low >= scan->size)
			continue;
		touched = heat_touch(word, HEAT_LAUNCHED, scan->now);
		if (scan->value)
			*scan->value = used_mix(*scan->value, touched.first);
		if (scan->runs)
			add_touched(scan->runs, &touched);
		if (scan->runs && touched.first)
			given_add(&scan->runs->given, word);
	}
}

/* Scans the other form: one buffer with all parameters in it, and its size. */
static void scan_extra(const struct scan *scan, void **extra)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
			memcpy(&size, extra[1], sizeof(size));
		else
			break; /* of a driver newer than this */
	}
	if (buffer)
		scan_words(scan, buffer, size / sizeof(uint64_t));
}

static bool scan_parameters(const struct scan *scan, CUfunction function, void **values, bool wait,
                            bool *is_blind)
{
	const struct parameters *parameters;

	if (!parameters_hold(function, wait, &parameters))
		return false;
	*is_blind = !parameters;
	for (size_t i = 0; parameters && i < parameters->count; i++) {
		const struct parameter *p = &parameters->parameter[i];

		if (values[p->index])
			scan_words(scan, values[p->index], p->words);
	}
	parameters_release();
	return true;
}

/*
 * Touches each run that the parameters lead to, and adds it to the runs (NULL: to none). Returns
 * whether the parameters could be read. wait: even if another thread holds the lock.
 */
static bool scan_launch(CUfunction function, void **parameters, void **extra, bool wait,
                        struct runs *runs, uint64_t *value)
{
	struct scan scan = {.runs = runs, .value = value};
	bool is_blind = false;

	if (!begin_scan(&scan))
		return true;
	if (parameters)
		scan_parameters(&scan, function, parameters, wait, &is_blind);
	else if (extra)
		scan_extra(&scan, extra);
	return !is_blind;
}

/* --- the entry of a graph; with the lock held --- */

static struct graph *heat_used_find(const void *handle)
{
	struct graph *graph;

	HASH_FIND_PTR(graphs, &handle, graph);
	return graph;
}

/* Finds a graph, or makes it. Returns NULL where there is no memory. */
static struct graph *find_or_make(const void *handle)
{
	struct graph *graph = heat_used_find(handle);

	if (graph)
		return graph;
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return NULL;
	graph->handle = handle;
	HASH_ADD_PTR(graphs, handle, graph);
	if (!graph->hh.tbl) {
		free(graph);
		return NULL;
	}
	return graph;
}

static void scan(struct runs *runs, const void *node, CUfunction function, void **parameters,
                 void **extra)
{
	given_add(&runs->given, (CUdeviceptr)(uintptr_t)node);
	if (!scan_launch(function, parameters, extra, true, runs, NULL))
		runs->is_blind = true;
	given_add(&runs->given, 0);
}

/* --- captures --- */

static void note_captured(CUfunction function, void **parameters, void **extra)
{
	lock_acquire(&lock);
	scan(&captured, NULL, function, parameters, extra);
	lock_release(&lock);
}

static void note_captured_runs(const struct heat_touched *touched)
{
	lock_acquire(&lock);
	add_touched(&captured, touched);
	lock_release(&lock);
}

static void heat_graph_capture_ended(const void *handle)
{
	struct graph *graph;

	lock_acquire(&lock);
	if (handle && (captured.count || captured.is_blind)) {
		graph = find_or_make(handle);
		if (graph)
			heat_used_add_all(&graph->runs, &captured);
	}
	if (!capture_is_active())
		heat_used_clear(&captured);
	lock_release(&lock);
}

static void heat_graph_kernel(const void *handle, const void *node, CUfunction function,
                              void **parameters, void **extra, bool is_changed)
{
	struct graph *graph;
	size_t newest;

	lock_acquire(&lock);
	graph = find_or_make(handle);
	newest = graph ? graph->runs.given.count : 0;
	if (graph)
		scan(&graph->runs, node, function, parameters, extra);
	if (graph && is_changed)
		given_replace(&graph->runs.given, newest);
	lock_release(&lock);
}

static void heat_graph_address(const void *handle, CUdeviceptr address)
{
	struct heat_touched touched = heat_touch(address, HEAT_COPIED, heat_work());
	struct graph *graph;

	if (!touched.first)
		return;
	lock_acquire(&lock);
	graph = find_or_make(handle);
	if (graph)
		add_touched(&graph->runs, &touched);
	lock_release(&lock);
}

static void heat_graph_add(const void *to, const void *from)
{
	struct graph *source, *target;

	lock_acquire(&lock);
	source = heat_used_find(from);
	target = source ? find_or_make(to) : NULL;
	if (target && target != source)
		heat_used_add_all(&target->runs, &source->runs);
	lock_release(&lock);
}

static void heat_used_forget(const void *handle)
{
	struct graph *graph = heat_used_find(handle);

	if (!graph)
		return;
	HASH_DEL(graphs, graph);
	heat_used_clear(&graph->runs);
	free(graph);
}

static void heat_graph_forget(const void *handle)
{
	lock_acquire(&lock);
	heat_used_forget(handle);
	lock_release(&lock);
}

static void heat_graph_replace(const void *to, const void *from)
{
	heat_graph_forget(to);
	heat_graph_add(to, from);
}

/* Returns whether it uses more, blindly. */
static bool touch_all(const void *handle, uint32_t now)
{
	const struct graph *graph = heat_used_find(handle);

	for (size_t i = 0; graph && i < graph->runs.count; i++)
		heat_touch(graph->runs.run[i], HEAT_COPIED, now);
	if (graph && capture_is_active()) /* it becomes a part of the captured graph */
		heat_used_add_all(&captured, &graph->runs);
	return graph && graph->runs.is_blind;
}

static void heat_graph_launched(const void *handle)
{
	uint32_t now = heat_work();
	bool is_blind;

	heat_sampled();
	if (!lock_try(&lock))
		return;
	is_blind = touch_all(handle, now) | (int)touch_all(HEAT_ANY_GRAPH, now);
	lock_release(&lock);
	if (is_blind)
		heat_launched_blindly();
}

/* --- launches and copies --- */

static void heat_launched(CUfunction function, void **parameters, void **extra)
{
	if (capture_is_active())
		note_captured(function, parameters, extra);
	else if (!scan_launch(function, parameters, extra, false, NULL, NULL))
		heat_launched_blindly();
	heat_sampled();
}

static void heat_copied(const CUdeviceptr *addresses, size_t count)
{
	uint32_t now = heat_work();

	for (size_t i = 0; i < count; i++) {
		struct heat_touched touched = heat_touch(addresses[i], HEAT_COPIED, now);

		if (touched.first && capture_is_active())
			note_captured_runs(&touched);
	}
	heat_sampled();
}

/* --- surveys --- */

static void ask_graph(const void *handle)
{
	const struct graph *graph = heat_used_find(handle);

	for (size_t i = 0; graph && i < graph->runs.count; i++)
		heat_touch(graph->runs.run[i], HEAT_COPIED, heat_work());
	if (graph)
		heat_used_add_all(&asked, &graph->runs);
}

/* Asks for the uses of a graph, or of a launch where that is NULL. */
static void ask(const void *graph, CUfunction function, void **parameters, void **extra)
{
	asked.count = asked.given.count = 0;
	asked.is_blind = asked.given.is_short = false;
	if (graph) {
		ask_graph(graph);
		ask_graph(HEAT_ANY_GRAPH);
	} else {
		scan(&asked, NULL, function, parameters, extra);
	}
}

int heat_uses_of(const void *graph, CUfunction function, void **parameters, void **extra,
                 CUdeviceptr *runs, size_t room)
{
	int count = -1;

	lock_acquire(&lock);
	ask(graph, function, parameters, extra);
	if (!asked.is_blind && asked.count <= room)
		count = (int)asked.count;
	if (count > 0)
		memcpy(runs, asked.run, asked.count * sizeof(*runs));
	lock_release(&lock);
	return count;
}

uint64_t heat_value_of_uses(const void *graph, CUfunction function, void **parameters, void **extra)
{
	uint64_t value = 0;

	if (!graph) {
		scan_launch(function, parameters, extra, true, NULL, &value);
		return value;
	}
	lock_acquire(&lock);
	ask(graph, function, parameters, extra);
	for (size_t i = 0; i < asked.count; i++)
		value = used_mix(value, asked.run[i]);
	lock_release(&lock);
	return value;
}

size_t heat_given(CUdeviceptr *words, size_t room)
{
	const struct given *given = &asked.given;
	size_t count = 0, end;

	lock_acquire(&lock);
	if (!given->is_short && given->count <= room)
		for (size_t at = 0; at < given->count; at = end) {
			end = given_behind(given, at++);
			memcpy(words + count, given->word + at, (end - at) * sizeof(*words));
			count += end - at;
		}
	lock_release(&lock);
	return count;
}

static void heat_hide(CUdeviceptr address)
{
	heat_touch(address, HEAT_HIDDEN, heat_work());
}

static void used_launched_blindly(void)
{
	heat_launched_blindly();
	heat_sampled();
}

void used_add_calls(struct placement_calls *calls)
{
	calls->launched = heat_launched;
	calls->launched_blindly = used_launched_blindly;
	calls->copied = heat_copied;
	calls->hide = heat_hide;
	calls->graph_launched = heat_graph_launched;
	calls->graph_kernel = heat_graph_kernel;
	calls->graph_address = heat_graph_address;
	calls->graph_add = heat_graph_add;
	calls->graph_replace = heat_graph_replace;
	calls->graph_forget = heat_graph_forget;
	calls->graph_capture_ended = heat_graph_capture_ended;
}
