/* SPDX-License-Identifier: MIT */
/*
 * Estimates: what is measured again and again, and differs each time.
 *
 * value   the mean of the measurements, in which older ones count less
 * spread  how far measurements lie from it: their variance, with the same weights
 * weight  of how many measurements that is the mean, in effect; 0: nothing is known
 *
 * With each measurement those before it count `keeps` times as much as they did. For example, with
 * keeps = 0.5 the values 8, 8 and 16 have the mean (2 + 4 + 16) / 1.75 = 12.6, and with keeps = 0
 * the last one counts alone.
 */
#ifndef SPILLWAY_ESTIMATE_H
#define SPILLWAY_ESTIMATE_H

struct estimate {
	double value, variance, weight;
};

static inline void estimate_add(struct estimate *e, double measured, double keeps)
{
	double off = measured - e->value, part;

	e->weight = e->weight * keeps + 1;
	part = 1 / e->weight;
	e->value += part * off;
	e->variance = (1 - part) * (e->variance + part * off * off);
}

/* Adds a cost, of which a higher one than was known counts alone: the next is to be borne, too. */
static inline void estimate_add_cost(struct estimate *e, double measured, double keeps)
{
	estimate_add(e, measured, measured > e->value ? 0 : keeps);
}

/* Returns the standard error of the value. Newton's method: no libm in a user's process. */
static inline double estimate_error(const struct estimate *e)
{
	double x = e->weight > 0 ? e->variance / e->weight : 0, root = x > 1 ? x : 1;

	for (int i = 0; i < 60 && x > 0; i++)
		root = (root + x / root) / 2;
	return x > 0 ? root : 0;
}

#endif
