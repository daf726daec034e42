/* SPDX-License-Identifier: MIT */
/* The account of GPU time: with a fake clock, over millions of random sequences. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/pace/account.h"
#include "suite.h"

#define WINDOW 100000000ull /* 100 ms */
#define DAY    86400000000000ull

/* Length of the slot that pays the debt. */
static uint64_t slot(uint64_t paid_until, uint64_t now)
{
	return paid_until > now ? paid_until - now : 0;
}

static uint64_t random_between(unsigned int *seed, uint64_t low, uint64_t high)
{
	uint64_t r = ((uint64_t)(unsigned int)rand_r(seed) << 31) ^ (unsigned int)rand_r(seed);

	return low + r % (high - low + 1);
}

/* Returns how far the account lags after a pause without end. */
static uint64_t lag_of(uint64_t now, uint32_t share, uint64_t window)
{
	return now - account_pay(0, now, 0, share, window);
}

/* A device that is always wanted: busy, pay, sleep what the account says, and a little longer. */
START_TEST(busy_time_converges_to_the_share)
{
	static const uint32_t shares[] = {1000, 10000, 25000, 50000, 75000, 90000, 99000};

	for (unsigned int seed = 0; seed < 700; seed++) {
		uint32_t share = shares[seed % 7];
		unsigned int state = seed;
		uint64_t begun = seed % 2 ? 1 : 3650 * DAY; /* ten years */
		uint64_t now = begun, busy = 0, paid = now;

		while (now - begun < 60000000000ull) {
			uint64_t kernel = random_between(&state, 50000, 50000000);

			now += kernel;
			busy += kernel;
			paid = account_pay(paid, now, kernel, share, WINDOW);
			now += slot(paid, now);
			now += random_between(&state, 0, 100000); /* woken late */
		}
		double held = (double)busy / (double)(now - begun) * ACCOUNT_FULL_SHARE;
		ck_assert_msg(held > share - 300.0 && held < share + 300.0,
		              "seed %u: share %u held %.0f", seed, share, held);
	}
}
END_TEST

/* Whatever happens, debt and credit stay within their bounds, and a slot ends. */
START_TEST(debt_is_bounded_and_nobody_starves)
{
	unsigned int seed = (unsigned int)_i + 1;
	uint64_t now = random_between(&seed, 0, 1) ? 0 : 3650 * DAY, paid = 0;

	for (int i = 0; i < 400000; i++) {
		uint32_t share = (uint32_t)random_between(&seed, 1, ACCOUNT_FULL_SHARE);
		uint64_t window = random_between(&seed, 0, 10) * WINDOW;
		uint64_t busy = random_between(&seed, 0, 1) ? random_between(&seed, 0, 50000000)
		                                            : UINT64_MAX >> (rand_r(&seed) % 64);
		uint64_t most =
		    (uint64_t)((double)ACCOUNT_MAX_DEBT_NS * ACCOUNT_FULL_SHARE / share) + 1;
		uint64_t credit = lag_of(now, share, window);
		uint64_t after = account_pay(paid, now, busy, share, window);

		/*
		 * One assertion for all: check writes down each, which takes longer than what is
		 * tested.
		 */
		bool is_bounded =
		    after <= now + most && after + credit >= now && slot(after, now) <= most &&
		    (double)credit * share / ACCOUNT_FULL_SHARE <= (double)window * 0.4 + 1;
		/* Nothing that is owed is forgotten but by the bounds. */
		bool is_kept = paid <= now || after >= now + most - 1 || after >= paid;

		if (!is_bounded || !is_kept)
			ck_abort_msg("step %d: paid until %" PRIu64 ", then %" PRIu64 " at %" PRIu64
			             ": busy %" PRIu64 ", share %u, window %" PRIu64,
			             i, paid, after, now, busy, share, window);
		paid = after;
		now += random_between(&seed, 0, 3) ? random_between(&seed, 0, WINDOW)
		                                   : random_between(&seed, 0, DAY);
	}
}
END_TEST

START_TEST(a_pause_counts_up_to_the_credit)
{
	uint64_t now = 100 * WINDOW;
	/*
	 * 40 ms at 50 % are 80 ms of lag before the work began; of 42 ms of work so many are saved,
	 * 2 are not.
	 */
	uint64_t paid = account_pay(0, now, 84000000, 50000, WINDOW);

	ck_assert_uint_eq(lag_of(now, 50000, WINDOW), 80000000);
	ck_assert_uint_eq(lag_of(now, 25000, WINDOW), WINDOW);
	ck_assert_uint_eq(slot(paid, now), 4000000);
	/* Half the pause, half the credit. */
	paid = account_pay(now - 40000000, now, 21000000, 50000, WINDOW);
	ck_assert_uint_eq(slot(paid, now), 2000000);
}
END_TEST

START_TEST(one_long_kernel_is_paid_for_afterwards)
{
	uint64_t now = 100 * WINDOW;
	uint64_t paid = account_pay(now - 50000000, now, 50000000, 10000, WINDOW);

	ck_assert_uint_eq(slot(paid, now), 450000000);
	/* A kernel of a minute like one of ten seconds. */
	paid = account_pay(now, now, 60000000000ull, 50000, WINDOW);
	ck_assert_uint_eq(slot(paid, now), 2 * ACCOUNT_MAX_DEBT_NS);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("account");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, busy_time_converges_to_the_share);
	tcase_add_loop_test(tests, debt_is_bounded_and_nobody_starves, 0, 10);
	tcase_add_test(tests, a_pause_counts_up_to_the_credit);
	tcase_add_test(tests, one_long_kernel_is_paid_for_afterwards);
	return suite_run("account", tests);
}
