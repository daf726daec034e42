/* Busy time. Rules: runs inside the user's process; no unbounded wait, no allocation per launch. */
#include "core/pace/busy.h"

#include <pthread.h>
#include <stdlib.h>

struct burst {
	CUcontext context;
	CUstream stream;
	uintptr_t thread; /* of a per-thread default stream: one handle, many streams; else 0 */
	CUevent begin, end;
	bool open;     /* takes more launches */
	bool recorded; /* end was recorded at least once */
};

struct round {
	uint64_t began_ns;
	uint64_t launches;
	int count;
	struct burst burst[BUSY_BURSTS];
};

struct busy {
	struct round *open;
	struct round *closed[BUSY_ROUNDS]; /* oldest first */
	int closed_count;
	struct round rounds[BUSY_ROUNDS + 1]; /* those above point in here */
};

struct busy *busy_create(void)
{
	return calloc(1, sizeof(struct busy));
}

uint64_t busy_round_began(const struct busy *busy)
{
	return busy->open ? busy->open->began_ns : 0;
}

uint64_t busy_round_launches(const struct busy *busy)
{
	return busy->open ? busy->open->launches : 0;
}

bool busy_is_full(const struct busy *busy)
{
	return busy->open && busy->open->count == BUSY_BURSTS;
}

static bool is_in_use(const struct busy *busy, const struct round *round)
{
	for (int i = 0; i < busy->closed_count; i++) {
		if (busy->closed[i] == round)
			return true;
	}
	return busy->open == round;
}

/* There is always one: as many as can be closed and one to be open. */
static struct round *unused_round(struct busy *busy)
{
	struct round *r = busy->rounds;

	while (is_in_use(busy, r))
		r++;
	return r;
}

/* Events stay with their place in the table and are made again when the context changes. */
static bool make_events(struct burst *burst, CUcontext context)
{
	if (burst->begin && burst->context == context)
		return true;
	if (burst->begin) {
		driver.cuEventDestroy_v2(burst->begin);
		driver.cuEventDestroy_v2(burst->end);
		burst->begin = NULL;
	}
	if (driver.cuEventCreate(&burst->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		burst->begin = NULL;
		return false;
	}
	if (driver.cuEventCreate(&burst->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		driver.cuEventDestroy_v2(burst->begin);
		burst->begin = NULL;
		return false;
	}
	return true;
}

static uintptr_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? (uintptr_t)pthread_self() : 0;
}

static struct burst *open_burst(struct busy *busy, CUcontext context, CUstream stream)
{
	if (!busy->open)
		return NULL;
	for (int i = busy->open->count - 1; i >= 0; i--) {
		struct burst *b = &busy->open->burst[i];

		if (b->open && b->stream == stream && b->context == context &&
		    b->thread == thread_of(stream))
			return b;
	}
	return NULL;
}

void busy_before(struct busy *busy, CUcontext context, CUstream stream, uint64_t now_ns)
{
	struct burst *b = open_burst(busy, context, stream);

	if (b && b->recorded && driver.cuEventQuery(b->end) == CUDA_SUCCESS &&
	    !busy_is_full(busy)) {
		b->open = false; /* the stream had run dry */
		b = NULL;
	}
	if (!busy->open) {
		busy->open = unused_round(busy);
		busy->open->count = 0;
		busy->open->launches = 0;
		busy->open->began_ns = now_ns;
	}
	busy->open->launches++;
	if (b)
		return;
	if (busy_is_full(busy))
		return; /* not measured; the pacer closes full rounds whenever it can */
	b = &busy->open->burst[busy->open->count];
	if (!make_events(b, context))
		return;
	b->context = context;
	b->stream = stream;
	b->thread = thread_of(stream);
	b->recorded = false;
	b->open = driver.cuEventRecord(b->begin, stream) == CUDA_SUCCESS;
	busy->open->count += b->open;
}

void busy_after(struct busy *busy, CUcontext context, CUstream stream)
{
	struct burst *b = open_burst(busy, context, stream);

	if (b && driver.cuEventRecord(b->end, stream) == CUDA_SUCCESS)
		b->recorded = true;
}

bool busy_close_round(struct busy *busy)
{
	if (busy->open) {
		if (busy->closed_count == BUSY_ROUNDS)
			return false;
		busy->closed[busy->closed_count++] = busy->open;
		busy->open = NULL;
	}
	return true;
}

struct interval {
	double begin_ms, end_ms;
};

static int by_begin(const void *a, const void *b)
{
	double x = ((const struct interval *)a)->begin_ms;
	double y = ((const struct interval *)b)->begin_ms;

	return x < y ? -1 : x > y;
}

static double union_of(struct interval *interval, int count)
{
	double sum = 0, until = -1e300;

	/* cppcheck-suppress uninitvar ; the first `count` are set */
	qsort(interval, (size_t)count, sizeof(*interval), by_begin);
	for (int i = 0; i < count; i++) {
		double begin = interval[i].begin_ms > until ? interval[i].begin_ms : until;

		if (interval[i].end_ms > begin) {
			sum += interval[i].end_ms - begin;
			until = interval[i].end_ms;
		}
	}
	return sum;
}

/* The bursts of one context against its first one's begin: events of two contexts cannot be
 * compared. */
static double busy_ms_of_context(const struct round *round, int first)
{
	struct interval interval[BUSY_BURSTS];
	CUcontext context = round->burst[first].context;
	int count = 0;

	for (int i = first; i < round->count; i++) {
		const struct burst *b = &round->burst[i];
		float begin = 0, length = 0;

		if (b->context != context || !b->recorded)
			continue;
		if ((i != first && driver.cuEventElapsedTime(&begin, round->burst[first].begin,
		                                             b->begin) != CUDA_SUCCESS) ||
		    driver.cuEventElapsedTime(&length, b->begin, b->end) != CUDA_SUCCESS)
			continue;
		interval[count++] = (struct interval){begin, (double)begin + length};
	}
	return union_of(interval, count);
}

static double busy_ms(const struct round *round)
{
	double sum = 0;

	for (int i = 0; i < round->count; i++) {
		bool first = round->burst[i].context != NULL;

		for (int j = 0; j < i && first; j++)
			first = round->burst[j].context != round->burst[i].context;
		if (first)
			sum += busy_ms_of_context(round, i);
	}
	return sum;
}

static bool is_running(const struct round *round)
{
	/* The latest are the likeliest to run. Errors count as done: the context is broken or gone.
	 */
	for (int i = round->count - 1; i >= 0; i--) {
		const struct burst *b = &round->burst[i];

		if (b->context && b->recorded &&
		    driver.cuEventQuery(b->end) == CUDA_ERROR_NOT_READY)
			return true;
	}
	return false;
}

bool busy_collect(struct busy *busy, struct busy_sum *sum)
{
	int left = 0;

	*sum = (struct busy_sum){0};
	for (int i = 0; i < busy->closed_count; i++) {
		struct round *r = busy->closed[i];
		uint64_t busy_ns;

		if (is_running(r)) {
			busy->closed[left++] = r;
			continue;
		}
		busy_ns = (uint64_t)(busy_ms(r) * 1e6);
		sum->busy_ns += busy_ns;
		sum->launches += r->launches;
		if (busy_ns > sum->longest_ns)
			sum->longest_ns = busy_ns;
	}
	busy->closed_count = left;
	return left > 0;
}

static void forget(struct burst *b, bool alive)
{
	if (b->begin && alive) {
		driver.cuEventDestroy_v2(b->begin);
		driver.cuEventDestroy_v2(b->end);
	}
	*b = (struct burst){0};
}

void busy_forget_context(struct busy *busy, CUcontext context, bool alive)
{
	for (int i = 0; i < BUSY_ROUNDS + 1; i++) {
		for (int j = 0; j < BUSY_BURSTS; j++) {
			if (busy->rounds[i].burst[j].context == context)
				forget(&busy->rounds[i].burst[j], alive);
		}
	}
}

void busy_forget_stream(struct busy *busy, CUstream stream)
{
	for (int i = 0; busy->open && i < busy->open->count; i++) {
		if (busy->open->burst[i].stream == stream)
			busy->open->burst[i].open = false;
	}
}
