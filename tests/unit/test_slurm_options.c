/* SPDX-License-Identifier: MIT */
/*
 * The options of the plugin for Slurm: the node takes any text of a user's command, or refuses it
 * in one printable line.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<slurm/spank.h>)
#include "core/base/printable.h"
#include "tools/slurm/settings.h"
#include "tests/unit/scratch.h"

/* --- what Slurm gives a plugin --- */

static const char *given[JOB_OPTION_COUNT];
static struct spank_option *registered[JOB_OPTION_COUNT];
static char complained[4096];

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	registered[option->val] = option;
	return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option *option, char **argv)
{
	(void)spank;
	*argv = (char *)given[option->val];
	return ESPANK_SUCCESS;
}

void slurm_error(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(complained, sizeof complained, format, list);
	va_end(list);
}

/* --- --- */

/* Sends a text from a command without the plugin. Returns whether the node takes it. */
static bool is_taken(enum job_option option, const char *text)
{
	char message[PATH_MAX];
	const char *value = "";
	bool is_right;

	given[option] = text;
	is_right = options_find(NULL, option, &value, message, sizeof message);
	given[option] = NULL;
	ck_assert_msg(is_right == (registered[option]->cb(option, text, 0) == 0),
	              "%.40s: the command and the node differ", text);
	if (is_right) {
		ck_assert_str_eq(value, text);
		return true;
	}
	ck_assert_ptr_null(value);
	ck_assert_msg(is_printable(message, sizeof message), "unprintable: %s", message);
	ck_assert_uint_lt(strlen(message), 256);
	ck_assert_ptr_nonnull(strstr(message, option_name(option)));
	ck_assert_msg(strstr(message, "expected") || strstr(message, "did you mean"), "%s",
	              message);
	ck_assert_msg(is_printable(complained, sizeof complained), "unprintable: %s", complained);
	return false;
}

START_TEST(no_text_is_taken_that_is_no_value)
{
	static const char *const texts[] = {"",
	                                    " ",
	                                    "lots",
	                                    "-1",
	                                    "--gpu-mem",
	                                    "1e9",
	                                    "0x10GiB",
	                                    "20",
	                                    "99999999999999999999GiB",
	                                    "18446744073709551615TiB",
	                                    "\xef\xbc\x98GiB",
	                                    "8GiB\xff",
	                                    "8GiB\n[ceiling]\nenforce = no",
	                                    "\033[2J8GiB",
	                                    "8GiB;",
	                                    "8GiB # and more",
	                                    "8GiB,16GiB",
	                                    "8GiB 16GiB",
	                                    "nan%",
	                                    "101%",
	                                    "%"};
	char *huge = malloc(1 << 20);

	for (int option = 0; option < JOB_OPTION_COUNT; option++) {
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			if (option != OPTION_share || strcmp(texts[i], "20") != 0)
				ck_assert_msg(!is_taken((enum job_option)option, texts[i]),
				              "--%s=%s was taken",
				              option_name((enum job_option)option), texts[i]);
		for (char c = '\x01'; c > 0 && c < 0x7f; c += 0x2f) {
			memset(huge, c, (1 << 20) - 1);
			huge[(1 << 20) - 1] = '\0';
			ck_assert(!is_taken((enum job_option)option, huge));
		}
	}
	free(huge);
}
END_TEST

/* What is taken where the job is submitted can be written into the settings of the job. */
START_TEST(what_is_taken_fits_into_a_line)
{
	char text[512];

	for (int blanks = 0; blanks < 400; blanks++) {
		snprintf(text, sizeof text, "8%*sGiB", blanks, "");
		ck_assert_msg(is_taken(OPTION_memory, text) == (blanks <= 60), "%d blanks", blanks);
	}
	ck_assert(is_taken(OPTION_memory, "unlimited"));
	ck_assert(is_taken(OPTION_memory_max, "50%"));
	ck_assert(is_taken(OPTION_share, "70"));
	ck_assert(is_taken(OPTION_priority, "guaranteed"));
}
END_TEST

/* A step asks for something else than its job has: by meaning, of what the job lacks too. */
START_TEST(a_step_that_asks_for_more_is_found)
{
	const char *value[JOB_OPTION_COUNT] = {NULL};
	FILE *out = fopen(scratch_path("job.ini"), "w");

	fprintf(out, "[gpu]\nmemory = 24M\n[ceiling]\nshare = 50\n");
	fclose(out);
	ck_assert_int_eq(settings_differ(scratch_path("job.ini"), value), JOB_OPTION_COUNT);
	value[OPTION_memory] = "24MiB";
	ck_assert_int_eq(settings_differ(scratch_path("job.ini"), value), JOB_OPTION_COUNT);
	value[OPTION_memory] = "24%";
	ck_assert_int_eq(settings_differ(scratch_path("job.ini"), value), OPTION_memory);
	value[OPTION_memory] = "24M";
	value[OPTION_share] = "50";
	ck_assert_int_eq(settings_differ(scratch_path("job.ini"), value), OPTION_share);
	ck_assert_int_eq(settings_differ("/nonexistent.ini", value), OPTION_memory);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slurm_options");
	TCase *tests = tcase_create("slurm_options");

	options_register(NULL);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, no_text_is_taken_that_is_no_value);
	tcase_add_test(tests, what_is_taken_fits_into_a_line);
	tcase_add_test(tests, a_step_that_asks_for_more_is_found);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
#else
int main(void)
{
	puts("no slurm/spank.h here; the package is libslurm-dev");
	return 77;
}
#endif
