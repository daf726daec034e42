/* SPDX-License-Identifier: MIT */
/* The benches share this: calls that must succeed, the clock, medians. */
#ifndef MEASURE_H
#define MEASURE_H

#include <cuda.h>

#define CU(call) measure_check((call), #call)
/* Ends the program where the call failed. */
void measure_check(CUresult result, const char *call);

double now_ns(void); /* CLOCK_MONOTONIC */

/* Device 0 with its primary context current; prints the "device NAME" line. */
CUdevice measure_open(void);

/* The middle one of the values, which it sorts. */
double median(double *values, int count);

struct measure {
	const char *name;
	void (*operation)(void);
	void (*after_round)(void); /* not timed */
	int per_round;
};
/* Prints "NAME NS": the median over rounds, so that one preempted round does not count. */
void measure(const struct measure *m);

#endif
