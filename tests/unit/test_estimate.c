/* SPDX-License-Identifier: MIT */
/* Estimates, against the weighted mean and variance of all measurements, for random ones. */
#include "core/base/estimate.h"

#include <math.h>

#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

enum { MEASUREMENTS = 200 };

static double measured[MEASUREMENTS];

/* A number from 0 to 1000. */
static double draw(void)
{
	return (double)(scratch_random() % 1000001) / 1000;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * (1 + fabs(a) + fabs(b));
}

/* Returns the sum of weights times a power of (measurement - from). */
static double sum(int count, double keeps, double from, int power)
{
	double total = 0;

	for (int i = 0; i < count; i++)
		total += pow(keeps, count - 1 - i) * pow(measured[i] - from, power);
	return total;
}

START_TEST(is_the_weighted_mean)
{
	double keeps = (double)_i / 10;
	struct estimate e = {0};

	ck_assert(estimate_error(&e) == 0);
	for (int i = 0; i < MEASUREMENTS; i++) {
		double weight, mean, variance;

		measured[i] = draw();
		estimate_add(&e, measured[i], keeps);
		weight = sum(i + 1, keeps, 0, 0);
		mean = sum(i + 1, keeps, 0, 1) / weight;
		variance = sum(i + 1, keeps, mean, 2) / weight;
		ck_assert(is_near(e.weight, weight));
		ck_assert(is_near(e.value, mean));
		ck_assert(is_near(e.variance, variance));
		ck_assert(is_near(estimate_error(&e), sqrt(variance / weight)));
	}
}
END_TEST

/* Whatever comes, the value lies between the least and the most, and equal ones are exact. */
START_TEST(lies_between)
{
	for (int run = 0; run < 1000; run++) {
		struct estimate e = {0}, same = {0};
		double keeps = draw() / 1000, least = INFINITY, most = 0, one = draw();

		for (int i = 0; i < 50; i++) {
			double value = draw();

			least = fmin(least, value);
			most = fmax(most, value);
			if (run % 2)
				estimate_add(&e, value, keeps);
			else
				estimate_add_cost(&e, value, keeps);
			ck_assert(e.value >= least - 1e-9 && e.value <= most + 1e-9);
			ck_assert(e.variance >= 0 && e.weight >= 1);
			estimate_add(&same, one, keeps);
			ck_assert(is_near(same.value, one) && same.variance < 1e-9);
		}
	}
}
END_TEST

/* A cost is never known to be lower than the last measurement; a lower one only draws it down. */
START_TEST(a_higher_cost_counts_alone)
{
	struct estimate e = {0};

	for (int i = 0; i < 10000; i++) {
		double before = e.value, cost = draw();

		estimate_add_cost(&e, cost, 0.5);
		ck_assert(e.value >= cost - 1e-9);
		if (cost > before)
			ck_assert(is_near(e.value, cost) && e.weight == 1);
		else
			ck_assert(e.value <= before + 1e-9);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("estimate");

	tcase_add_loop_test(tests, is_the_weighted_mean, 0, 11);
	tcase_add_test(tests, lies_between);
	tcase_add_test(tests, a_higher_cost_counts_alone);
	return suite_run("estimate", tests);
}
