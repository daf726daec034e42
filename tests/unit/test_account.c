/* The account of GPU time: with a fake clock, over random sequences. */
#include <check.h>
#include <stdlib.h>

#include "core/pace/account.h"

static const uint64_t window = 100000000; /* 100 ms */

static uint64_t random_between(unsigned int *seed, uint64_t low, uint64_t high)
{
	uint64_t r = ((uint64_t)(unsigned int)rand_r(seed) << 31) ^ (unsigned int)rand_r(seed);

	return low + r % (high - low + 1);
}

/* A device that is always wanted: busy, pay, sleep what the account says. */
START_TEST(share_converges_for_any_kernel_length)
{
	static const uint32_t shares[] = {1000, 10000, 25000, 50000, 75000, 90000, 99000};

	for (unsigned int seed = 0; seed < 200; seed++) {
		uint32_t share = shares[seed % 7];
		struct account account = {0};
		unsigned int state = seed;
		uint64_t now = 1, busy = 0, begun = now;

		account_gain(&account, now, share, window);
		while (now - begun < 60000000000ull) {
			uint64_t kernel = random_between(&state, 50000, 50000000);

			now += kernel;
			busy += kernel;
			account_pay(&account, kernel);
			account_gain(&account, now, share, window);
			now += account_slot(&account, share);
			account_gain(&account, now, share, window);
			ck_assert_int_ge(account.balance_ns, 0);
		}
		double held = (double)busy / (double)(now - begun) * ACCOUNT_FULL_SHARE;
		ck_assert_msg(held > share - 500.0 && held < share + 500.0,
		              "seed %u: share %u held %.0f", seed, share, held);
	}
}
END_TEST

START_TEST(natural_idle_counts_up_to_the_window)
{
	struct account account = {0};

	account_gain(&account, 1, 50000, window);
	account_gain(&account, 1 + 10000000000ull, 50000, window);
	ck_assert_int_eq(account.balance_ns, (int64_t)window / 2);
	account_pay(&account, window / 2);
	ck_assert_uint_eq(account_slot(&account, 50000), 0);
	account_pay(&account, 1000000);
	ck_assert_uint_eq(account_slot(&account, 50000), 2000000);
}
END_TEST

START_TEST(debt_is_bounded_and_nothing_overflows)
{
	struct account account = {0};
	const uint64_t ten_years = 10ull * 365 * 86400 * 1000000000;

	account_gain(&account, 1, 10000, window);
	account_pay(&account, UINT64_MAX);
	ck_assert_int_eq(account.balance_ns, -ACCOUNT_MAX_DEBT_NS);
	account_pay(&account, ten_years);
	ck_assert_int_eq(account.balance_ns, -ACCOUNT_MAX_DEBT_NS);
	ck_assert_uint_eq(account_slot(&account, 1),
	                  (uint64_t)ACCOUNT_MAX_DEBT_NS * ACCOUNT_FULL_SHARE);
	account_gain(&account, 1 + ten_years, ACCOUNT_FULL_SHARE, window);
	ck_assert_int_eq(account.balance_ns, (int64_t)window);
	account_gain(&account, UINT64_MAX, ACCOUNT_FULL_SHARE, UINT64_MAX / 4);
	ck_assert_int_gt(account.balance_ns, 0);
}
END_TEST

START_TEST(a_clock_that_steps_back_gains_nothing)
{
	struct account account = {0};

	account_gain(&account, 1000000, 50000, window);
	account_pay(&account, 500);
	account_gain(&account, 10, 50000, window);
	ck_assert_int_eq(account.balance_ns, -500);
}
END_TEST

/* Gains in small steps add up to the gain in one: no rounding is lost. */
START_TEST(small_gains_add_up)
{
	struct account fine = {0}, coarse = {0};
	uint64_t now = 1;
	unsigned int seed = 7;

	account_gain(&fine, now, 333, window);
	account_gain(&coarse, now, 333, window);
	account_pay(&fine, 1000000000);
	account_pay(&coarse, 1000000000);
	for (int i = 0; i < 100000; i++) {
		now += random_between(&seed, 1, 999);
		account_gain(&fine, now, 333, window);
	}
	account_gain(&coarse, now, 333, window);
	ck_assert_int_eq(fine.balance_ns, coarse.balance_ns);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("account");
	TCase *tests = tcase_create("account");
	SRunner *runner = srunner_create(suite);

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, share_converges_for_any_kernel_length);
	tcase_add_test(tests, natural_idle_counts_up_to_the_window);
	tcase_add_test(tests, debt_is_bounded_and_nothing_overflows);
	tcase_add_test(tests, a_clock_that_steps_back_gains_nothing);
	tcase_add_test(tests, small_gains_add_up);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
