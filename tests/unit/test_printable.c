/* SPDX-License-Identifier: MIT */
/*
 * Printable text: whole characters of UTF-8 that control nothing; each byte of anything else
 * becomes '?'.
 */
#include "core/base/printable.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shown(const char *text)
{
	static char copy[256];

	snprintf(copy, sizeof copy, "%s", text);
	ck_assert_int_eq(is_printable(text, sizeof copy), strcmp(printable(copy), text) == 0);
	ck_assert(is_printable(copy, sizeof copy));
	return copy;
}

START_TEST(what_stays)
{
	static const char *const good[] = {"",
	                                   " ~aZ9/._-@",
	                                   "\xc2\xa0",         /* the first behind C1 */
	                                   "\xc3\xa9\xdf\xbf", /* two bytes */
	                                   "\xe0\xa0\x80\xe2\x82\xac\xef\xbf\xbd",
	                                   "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
	                                   "\xed\x9f\xbf\xee\x80\x80"}; /* beside the surrogates */

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		ck_assert_str_eq(shown(good[i]), good[i]);
}
END_TEST

START_TEST(what_does_not)
{
	static const struct {
		const char *given, *shown;
	} bad[] = {
	    {"\x1b[2J\x07\x7f\n\t", "?[2J????"},
	    {"\xc2\x80\xc2\x9b\xc2\x9f", "??????"}, /* C1 in two bytes each */
	    {"a\x9b"
	     "b\x80",
	     "a?b?"},                     /* and in one */
	    {"\xc0\xaf\xc1\xbf", "????"}, /* longer than need be */
	    {"\xe0\x9f\xbf", "???"},
	    {"\xf0\x8f\xbf\xbf", "????"},
	    {"\xed\xa0\x80\xed\xbf\xbf", "??????"}, /* surrogates */
	    {"\xf4\x90\x80\x80\xf5\x80\x80\x80\xff\xfe", "??????????"},
	    {"\xc3", "?"}, /* cut */
	    {"\xe2\x82", "??"},
	    {"\xf0\x90\x80", "???"},
	    {"\xe2\x82)", "?"
	                  "?)"},
	    {"\xc3\xc3\xa9", "?\xc3\xa9"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_str_eq(shown(bad[i].given), bad[i].shown);
}
END_TEST

/*
 * Of every text of so many bytes the shown form is printable, and is left as it is when shown
 * again.
 */
START_TEST(whatever_it_is)
{
	char text[9], again[9];

	srand(7);
	for (int i = 0; i < 20000; i++) {
		for (int n = 0; n < 8; n++)
			text[n] = (char)(rand() % 4 ? 0x80 + rand() % 128 : 1 + rand() % 255);
		text[8] = '\0';
		strcpy(again, printable(text));
		ck_assert_str_eq(printable(again), text);
		for (size_t n = 0; n < strlen(text); n++)
			ck_assert(((unsigned char)text[n] & 0xe0) != 0 && text[n] != 0x7f);
		for (const char *at = text; (at = strchr(at, 0xc2)); at++)
			ck_assert_uint_ge((unsigned char)at[1], 0xa0);
	}
}
END_TEST

START_TEST(lines_stay_lines)
{
	char text[] = "one\x1b\n\ntwo\x9b\n";

	ck_assert_str_eq(printable_lines(text), "one?\n\ntwo?\n");
}
END_TEST

START_TEST(a_text_has_an_end)
{
	char text[4] = {'a', 'b', 'c', 'd'};

	ck_assert(!is_printable(text, sizeof text));
	printable_bytes(text, sizeof text);
	text[2] = '\xc3'; /* nothing behind it is looked at */
	printable_bytes(text, 3);
	ck_assert_mem_eq(text, "ab?d", 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("printable");
	TCase *tests = tcase_create("printable");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_stays);
	tcase_add_test(tests, what_does_not);
	tcase_add_test(tests, whatever_it_is);
	tcase_add_test(tests, lines_stay_lines);
	tcase_add_test(tests, a_text_has_an_end);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
