/* SPDX-License-Identifier: MIT */
/*
 * Measuring what a round's bursts took, by their events. Rules: runs inside the user's process; no
 * wait, no allocation.
 */
#include "core/pace/busy_private.h"

/* The time that a launch takes the driver at most, undisturbed. */
#define USUAL_LAUNCH_NS 20000u

struct interval {
	double begin_ms, end_ms;
};

/* Returns what lies after *until, which it moves on. It is nearly in order; qsort() allocates. */
static double union_of(struct interval *interval, int count, double *until)
{
	double sum = 0;

	for (int i = 1; i < count; i++) {
		struct interval one = interval[i];
		int j = i;

		for (; j > 0 && interval[j - 1].begin_ms > one.begin_ms; j--)
			interval[j] = interval[j - 1];
		interval[j] = one;
	}
	for (int i = 0; i < count; i++) {
		double begin = interval[i].begin_ms > *until ? interval[i].begin_ms : *until;

		if (interval[i].end_ms > begin) {
			sum += interval[i].end_ms - begin;
			*until = interval[i].end_ms;
		}
	}
	return sum;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/*
 * Returns what was no work at its begin, of what lies between its events (whole). A thread that
 * stood still there may have done so before the kernel was launched or after it; what the launches
 * should cost tells, but for a fifth.
 */
static double idle_ms(const struct burst *b, double whole_ms)
{
	double idle = (double)b->idle_ns / 1e6, cost = (double)b->cost_ns / 1e6;
	double work = whole_ms - idle;

	if (!b->cost_ns)
		return smaller(idle, USUAL_LAUNCH_NS / 1e6);
	return work > 0.8 * cost ? idle : whole_ms - smaller(whole_ms, 0.8 * cost);
}

static struct interval interval_of(const struct burst *b, double begin_ms, double measured_ms)
{
	double whole = measured_ms + (double)b->unrecorded_ns / 1e6;
	double idle = idle_ms(b, whole), cost = (double)b->cost_ns / 1e6;

	if (b->is_torn && b->cost_ns)
		whole = smaller(whole, idle + cost);
	return (struct interval){.begin_ms = begin_ms + idle, .end_ms = begin_ms + whole};
}

/*
 * Measures the bursts of one context against its first one's begin: events of two contexts cannot
 * be compared. until: where work that is paid for ended, by the same clock.
 */
static double busy_ms_of_context(const struct round *round, int first, double *until)
{
	struct interval interval[BUSY_BURSTS];
	CUcontext context = round->burst[first].context;
	int count = 0;

	for (int i = first; i < round->count; i++) {
		const struct burst *b = &round->burst[i];
		float begin = 0, length = 0;

		if (b->context != context)
			continue;
		if (i != first && driver.cuEventElapsedTime(&begin, round->burst[first].begin,
		                                            b->begin) != CUDA_SUCCESS)
			continue;
		if (b->recorded &&
		    driver.cuEventElapsedTime(&length, b->begin, b->end) != CUDA_SUCCESS)
			continue;
		interval[count++] = interval_of(b, begin, length);
	}
	return union_of(interval, count, until);
}

/* Returns where the last round's union ended, from this round's first event on. */
static double until_by(struct busy *busy, const struct round *round)
{
	const struct round *last = busy->collected ? round_of(busy, busy->collected - 1) : NULL;
	float distance;

	if (!last || !last->count || !round->count ||
	    last->burst[0].context != round->burst[0].context ||
	    driver.cuEventElapsedTime(&distance, last->burst[0].begin, round->burst[0].begin) !=
	        CUDA_SUCCESS)
		return -1e300;
	return busy->until_ms - distance;
}

double busy_measure_ms(struct busy *busy, const struct round *round)
{
	double sum = 0;

	for (int i = 0; i < round->count; i++) {
		bool first = round->burst[i].context != NULL;
		double until = i ? -1e300 : until_by(busy, round);

		for (int j = 0; j < i && first; j++)
			first = round->burst[j].context != round->burst[i].context;
		if (first)
			sum += busy_ms_of_context(round, i, &until);
		if (i == 0)
			busy->until_ms = until;
	}
	return sum;
}
