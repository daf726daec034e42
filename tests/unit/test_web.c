/* SPDX-License-Identifier: MIT */
/* The page's parts: the digest of its policy, and the last ten minutes of each job. */
#include "tools/web/history.h"
#include "tools/web/sha256.h"

#include "tests/unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/formats/json.h"

/* The examples of FIPS 180-4, and lengths around the end of a block. */
START_TEST(digests)
{
	static const struct {
		size_t length; /* of the beginning of 'a' again and again; 0: of text */
		const char *text, *digest;
	} known[] = {
	    {0, "", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
	    {0, "abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
	    {55, NULL, "n0OQ+NMMLdkuyfCVtl4rmumwqSWlJY4kHJ8ekQ9zQxg="},
	    {56, NULL, "s1Q5pKxvCUi21vnjxq8PX1kM4g8b3nCQ73lwaG7Gc4o="},
	    {64, NULL, "/+BU/nrgy23GXDr5th1SCfQ5hR20PQulmXM33xVGaOs="},
	    {1000, NULL, "Qe3s5C1j6Nm/UVqbppMuHCDLyfWl0TRkWttdsblzfqM="},
	};
	char bytes[1000], text[SHA256_TEXT];

	memset(bytes, 'a', sizeof bytes);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		ck_assert_str_eq(
		    sha256_base64(known[i].text ? known[i].text : bytes,
		                  known[i].text ? strlen(known[i].text) : known[i].length, text),
		    known[i].digest);
}
END_TEST

/* Returns what the page is told of a job; the caller frees it. */
static char *told_of(const struct history *history, uint64_t token)
{
	char *told = NULL;
	size_t size;
	struct json json = {.out = open_memstream(&told, &size)};

	json_open(&json, NULL, '{');
	history_json(history, token, &json);
	json_close(&json, '}');
	fclose(json.out);
	return told;
}

/* Returns how often the text contains a part. */
static int count_of(const char *text, const char *part)
{
	int count = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		count++;
	return count;
}

static struct history *volatile kept; /* never freed, so a search for leaks must find it */

START_TEST(samples)
{
	struct history *history = kept = history_create();
	char *told;

	history_add(history, 7, 0,
	            &(struct history_sample){.at_ns = 1, .device = 2, .busy_ns = UINT64_MAX});
	history_add(history, 7, 1, &(struct history_sample){.at_ns = 1, .device = 9});
	history_add(history, 8, 0, &(struct history_sample){.at_ns = 1, .device = 4});
	history_add(history, 7, 0, &(struct history_sample){.at_ns = 2, .device = 3, .host = 5});
	told = told_of(history, 7);
	ck_assert_str_eq(told, "{\"interval_ns\":2000000000,\"devices\":["
	                       "{\"gpu\":0,\"at_ns\":[1,2],\"device_charged\":[2,3],"
	                       "\"host_charged\":[0,5],\"busy_ns\":[null,0],\"steps\":[0,0],"
	                       "\"launches\":[0,0]},"
	                       "{\"gpu\":1,\"at_ns\":[1],\"device_charged\":[9],"
	                       "\"host_charged\":[0],\"busy_ns\":[0],\"steps\":[0],"
	                       "\"launches\":[0]}]}");
	free(told);
}
END_TEST

/* However long it runs and however many jobs come, so much is kept and no more. */
START_TEST(bounds)
{
	struct history *history = kept = history_create();
	uint64_t now = 1;
	char *told;

	for (int i = 0; i < 1000; i++, now += HISTORY_INTERVAL_NS)
		history_add(history, 7, 0,
		            &(struct history_sample){.at_ns = now, .device = (uint64_t)i});
	told = told_of(history, 7);
	ck_assert_ptr_nonnull(strstr(told, "\"device_charged\":[700,701,"));
	ck_assert_ptr_nonnull(strstr(told, ",998,999]"));
	free(told);
	for (uint64_t token = 100; token < 1100; token++)
		history_add(history, token, 0, &(struct history_sample){.at_ns = now});
	told = told_of(history, 100 + 254);
	ck_assert_int_eq(count_of(told, "\"gpu\":"), 1);
	free(told);
	told = told_of(history, 100 + 255);
	ck_assert_int_eq(count_of(told, "\"gpu\":"), 0);
	free(told);

	/* Jobs without a sample for ten minutes leave room. */
	history_add(history, 100, 0,
	            &(struct history_sample){.at_ns = now + 300 * HISTORY_INTERVAL_NS});
	history_forget(history, now + 300 * HISTORY_INTERVAL_NS);
	told = told_of(history, 7);
	ck_assert_int_eq(count_of(told, "\"gpu\":"), 0);
	free(told);
	told = told_of(history, 100);
	ck_assert_int_eq(count_of(told, "\"gpu\":"), 1);
	free(told);
	history_add(history, 5000, 3, &(struct history_sample){.at_ns = now});
	told = told_of(history, 5000);
	ck_assert_int_eq(count_of(told, "\"gpu\":3"), 1);
	free(told);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("web");
	TCase *tests = tcase_create("web");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, digests);
	tcase_add_test(tests, samples);
	tcase_add_test(tests, bounds);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
