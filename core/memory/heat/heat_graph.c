/* What graphs use. Rules: runs inside the user's process; makes no driver call but what parameters.h does. */
#include "core/memory/heat/heat_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/memory/heat/heat.h"

/* Addresses of runs, in order. */
struct runs {
	CUdeviceptr *run;
	size_t count, room;
	bool is_blind; /* and more */
};

struct graph {
	const void *handle;
	struct runs runs;
	UT_hash_handle hh;
};

/* Taken before the lock of parameters.h. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct graph *graphs;
static struct runs captured; /* since a capture became active */

/* --- lists; with the lock held --- */

static void add(struct runs *runs, CUdeviceptr run)
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

static void add_all(struct runs *to, const struct runs *from)
{
	for (size_t i = 0; i < from->count; i++)
		add(to, from->run[i]);
	to->is_blind |= from->is_blind;
}

static void clear(struct runs *runs)
{
	free(runs->run);
	*runs = (struct runs){0};
}

static struct graph *find(const void *handle)
{
	struct graph *graph;

	HASH_FIND_PTR(graphs, &handle, graph);
	return graph;
}

/* NULL: no memory. */
static struct graph *find_or_make(const void *handle)
{
	struct graph *graph = find(handle);

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

static void found(void *cookie, CUdeviceptr run)
{
	add(cookie, run);
}

static void scan(struct runs *runs, CUfunction function, void **parameters, void **extra)
{
	if (!heat_scan(function, parameters, extra, true, found, runs))
		runs->is_blind = true;
}

/* --- captures --- */

void heat_graph_captured(CUfunction function, void **parameters, void **extra)
{
	pthread_mutex_lock(&lock);
	scan(&captured, function, parameters, extra);
	pthread_mutex_unlock(&lock);
}

void heat_graph_captured_run(CUdeviceptr run)
{
	pthread_mutex_lock(&lock);
	add(&captured, run);
	pthread_mutex_unlock(&lock);
}

void heat_graph_capture_ended(const void *handle)
{
	struct graph *graph;

	pthread_mutex_lock(&lock);
	if (handle && (captured.count || captured.is_blind)) {
		graph = find_or_make(handle);
		if (graph)
			add_all(&graph->runs, &captured);
	}
	if (!capture_is_active())
		clear(&captured);
	pthread_mutex_unlock(&lock);
}

/* --- graphs --- */

void heat_graph_kernel(const void *handle, CUfunction function, void **parameters, void **extra)
{
	struct graph *graph;

	pthread_mutex_lock(&lock);
	graph = find_or_make(handle);
	if (graph)
		scan(&graph->runs, function, parameters, extra);
	pthread_mutex_unlock(&lock);
}

void heat_graph_address(const void *handle, CUdeviceptr address)
{
	CUdeviceptr run = heat_touch(address, HEAT_COPIED, heat_work());
	struct graph *graph;

	if (!run)
		return;
	pthread_mutex_lock(&lock);
	graph = find_or_make(handle);
	if (graph)
		add(&graph->runs, run);
	pthread_mutex_unlock(&lock);
}

void heat_graph_add(const void *to, const void *from)
{
	struct graph *source, *target;

	pthread_mutex_lock(&lock);
	source = find(from);
	target = source ? find_or_make(to) : NULL;
	if (target && target != source)
		add_all(&target->runs, &source->runs);
	pthread_mutex_unlock(&lock);
}

static void forget(const void *handle)
{
	struct graph *graph = find(handle);

	if (!graph)
		return;
	HASH_DEL(graphs, graph);
	clear(&graph->runs);
	free(graph);
}

void heat_graph_forget(const void *handle)
{
	pthread_mutex_lock(&lock);
	forget(handle);
	pthread_mutex_unlock(&lock);
}

void heat_graph_replace(const void *to, const void *from)
{
	heat_graph_forget(to);
	heat_graph_add(to, from);
}

/* Whether blindly. */
static bool touch_all(const void *handle, uint32_t now)
{
	const struct graph *graph = find(handle);

	for (size_t i = 0; graph && i < graph->runs.count; i++)
		heat_touch(graph->runs.run[i], HEAT_COPIED, now);
	if (graph && capture_is_active()) /* it becomes a part of what is captured */
		add_all(&captured, &graph->runs);
	return graph && graph->runs.is_blind;
}

void heat_graph_launched(const void *handle)
{
	uint32_t now = heat_work();
	bool is_blind;

	heat_sampled();
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	is_blind = touch_all(handle, now) | touch_all(HEAT_ANY_GRAPH, now);
	pthread_mutex_unlock(&lock);
	if (is_blind)
		heat_launched_blindly();
}
