/* SPDX-License-Identifier: MIT */
/* Refusals: every reason has a sentence of its own, and the reason follows from the lack. */
#include <string.h>

#include "core/budget/refusal.h"
#include "core/ledger/refused.h"
#include "tests/unit/state_directory.h"

#define MIB ((uint64_t)1 << 20)

static char text[400], other[400];

static const char *say(enum refusal_reason reason, uint64_t lacking, uint64_t limit)
{
	const struct refused refused = {reason, 12 * MIB, lacking, limit};

	return refused_text(&refused, "", text, sizeof text);
}

START_TEST(says_limit_shortage_and_option)
{
	ck_assert_str_eq(say(REFUSED_HOST_LIMIT, 2 * MIB, 10 * MIB),
	                 "refused 12.0 MiB: host memory is used up (limit 10.0 MiB, 2.00 MiB too "
	                 "little). Raise it with `--host-memory`.");
	ck_assert_str_eq(say(REFUSED_HOST_LIMIT, 0, 10 * MIB),
	                 "refused 12.0 MiB: host memory is used up (limit 10.0 MiB). Raise it with "
	                 "`--host-memory`.");
	ck_assert_ptr_nonnull(strstr(say(REFUSED_DEVICE_FULL, 2 * MIB, REFUSED_NO_LIMIT),
	                             " (2.00 MiB too little). "));
	ck_assert_ptr_nonnull(strstr(say(REFUSED_UNMOVABLE, 0, 0), "(limit 0 B)"));
}
END_TEST

/* A new reason without words of its own would be taken for the driver's. */
START_TEST(each_reason_has_its_sentence)
{
	static const enum refusal_reason reasons[] = {
#define X(constant, word) constant,
	    CODES_refusal(X)
#undef X
	};
	const size_t count = sizeof reasons / sizeof *reasons;

	for (size_t i = 1; i < count; i++) {
		strcpy(other, say(reasons[i], 0, REFUSED_NO_LIMIT));
		ck_assert_uint_lt(strlen(other), sizeof other - 100);
		for (size_t j = i + 1; j < count; j++)
			ck_assert_str_ne(other, say(reasons[j], 0, REFUSED_NO_LIMIT));
	}
}
END_TEST

/* A device outside of all books but its own; 64 MiB of 64 are charged. */
static struct device device;
static struct terms terms;

static void setup(void)
{
	memset(&device, 0, sizeof device);
	device.segment = segment_make_private(1);
	ck_assert_ptr_nonnull(device.segment);
	lock_init(&device.lock);
	ck_assert_int_eq(segment_device(device.segment, &(struct segment_device){.uuid = "GPU-1"}),
	                 0);
	device.statistics = segment_own(device.segment, 0).counters;
	device.ledger = segment_own(device.segment, 0).ledger;
	ck_assert_int_eq(device_charge_taken(&device, 64 * MIB), 0);
	terms = (struct terms){.limit = 64 * MIB, .yields_above = UINT64_MAX};
	terms.settings.host_memory = CONFIG_AUTO;
}

static void teardown(void)
{
	segment_leave(device.segment);
}

START_TEST(the_reason_follows_from_the_lack)
{
	struct lack lack = {SEGMENT_ON_DEVICE, 12 * MIB, 2 * MIB, SPILL_DEVICE_FULL};
	struct refused refused = refusal_by_lack(&device, &terms, 12 * MIB, &lack);

	ck_assert_int_eq(refused.reason, REFUSED_DEVICE_FULL);
	ck_assert_uint_eq(refused.lacking, 12 * MIB);
	/* not in the job's books: no limit is its own */
	lack.why = SPILL_LIMIT;
	refused = refusal_by_lack(&device, &terms, 12 * MIB, &lack);
	ck_assert_int_eq(refused.reason, REFUSED_NO_BOOKS);
	ck_assert_uint_eq(refused.limit, REFUSED_NO_LIMIT);
	lack.bytes = 0;
	ck_assert_int_eq(refusal_by_lack(&device, &terms, 12 * MIB, &lack).reason, REFUSED_PROCESS);
	/* what the machine has left is no number that the job was given */
	lack = (struct lack){SEGMENT_ON_HOST, 12 * MIB, 2 * MIB, SPILL_HOST_LIMIT};
	ck_assert_int_eq(refusal_by_lack(&device, &terms, 12 * MIB, &lack).reason,
	                 REFUSED_HOST_FULL);
	/* the machine refused what the job may have, or had room that the process cannot enter */
	lack = (struct lack){SEGMENT_ON_HOST, 0, 0, SPILL_HOST_LIMIT};
	ck_assert_int_eq(refusal_by_lack(&device, &terms, 12 * MIB, &lack).reason,
	                 REFUSED_HOST_FULL);
	lack.why = SPILL_NONE;
	ck_assert_int_eq(refusal_by_lack(&device, &terms, 12 * MIB, &lack).reason, REFUSED_PROCESS);
	lack = (struct lack){SEGMENT_ON_HOST, 12 * MIB, 2 * MIB, SPILL_HOST_LIMIT};
	terms.settings.host_memory = 10 * MIB;
	ck_assert_int_eq(refusal_by_lack(&device, &terms, 12 * MIB, &lack).reason,
	                 REFUSED_NO_BOOKS);
}
END_TEST

START_TEST(a_refusal_is_noted_whole)
{
	const struct refused refused = {REFUSED_HOST_LIMIT, 12 * MIB, 2 * MIB, 10 * MIB};

	refusal_note(&device, REFUSED_ALLOCATION, &refused);
	ck_assert_uint_eq(device.refusals, 1);
	ck_assert_uint_eq(device.statistics->refusals, 1);
	ck_assert_uint_eq(device.statistics->refused_reason, REFUSED_HOST_LIMIT);
	ck_assert_uint_eq(device.statistics->refused_bytes, 12 * MIB);
	ck_assert_uint_eq(device.statistics->refused_short, 2 * MIB);
	ck_assert_uint_eq(device.statistics->refused_limit, 10 * MIB);
	ck_assert_uint_ne(device.statistics->refused_at, 0);
	ck_assert_uint_eq(device.statistics->begun, device.statistics->ended);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("refused");
	TCase *tests = tcase_create("refused");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, says_limit_shortage_and_option);
	tcase_add_test(tests, each_reason_has_its_sentence);
	tcase_add_test(tests, the_reason_follows_from_the_lack);
	tcase_add_test(tests, a_refusal_is_noted_whole);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
