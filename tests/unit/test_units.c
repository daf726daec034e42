/* SPDX-License-Identifier: MIT */
/* Units: texts that are a size, a percent or a duration, and texts that only look like one. */
#include "core/base/units.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KIB          (UINT64_C(1) << 10)
#define MIB          (UINT64_C(1) << 20)
#define GIB          (UINT64_C(1) << 30)
#define TIB          (UINT64_C(1) << 40)

START_TEST(sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
	    {"0", 0},
	    {"1", 1},
	    {"512B", 512},
	    {"8K", 8 * KIB},
	    {"8Ki", 8 * KIB},
	    {"8KB", 8 * KIB},
	    {"8KiB", 8 * KIB},
	    {"8kib", 8 * KIB},
	    {"3000m", 3000 * MIB},
	    {"8Gi", 8 * GIB},
	    {"8 GiB", 8 * GIB},
	    {"8 \t g", 8 * GIB},
	    {"1.5G", GIB + GIB / 2},
	    {"0.5T", TIB / 2},
	    {"0.1K", 102},
	    {"1.0000000000000000000000000001K", KIB},
	    {"18446744073709551615", UINT64_MAX},
	    {"16777215.5T", UINT64_MAX - TIB / 2 + 1},
	};

	for (size_t i = 0; i < COUNT(good); i++) {
		uint64_t bytes = 7;

		ck_assert_msg(units_parse_size(good[i].text, &bytes) == 0, "%s", good[i].text);
		ck_assert_msg(bytes == good[i].bytes, "%s: %" PRIu64, good[i].text, bytes);
	}
}
END_TEST

START_TEST(no_sizes)
{
	static const char *const bad[] = {
	    "",    " ",   "-1",  "+1",    "010",   "00",  "0x10", "1.5",   "1.",
	    ".5G", "1..", "8Gx", "8 G i", "8GiBs", "8G ", " 8G",  "G",     "8ib",
	    "1e3", "1,5", "8\n", "٣",     "8P",    "nan", "inf",  "1.5 B", "8 ",
	};
	static const char *const large[] = {"18446744073709551616", "16777216T",
	                                    "99999999999999999999999999999", "17179869184G"};
	uint64_t bytes = 7;

	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(units_parse_size(bad[i], &bytes) == -EINVAL, "'%s'", bad[i]);
	for (size_t i = 0; i < COUNT(large); i++)
		ck_assert_msg(units_parse_size(large[i], &bytes) == -ERANGE, "%s", large[i]);
	ck_assert_uint_eq(bytes, 7);
}
END_TEST

/* Any number of any unit is read exactly, or refused because it does not fit. */
START_TEST(random_sizes)
{
	static const char letters[] = "KMGT";

	for (int i = 0; i < 20000; i++) {
		uint64_t number = scratch_random() >> (scratch_random() % 64);
		unsigned unit = (unsigned)(scratch_random() % 4);
		unsigned __int128 expected = (unsigned __int128)number << (10 * (unit + 1));
		uint64_t bytes = 0;
		char text[40];
		int status;

		snprintf(text, sizeof(text), "%" PRIu64 "%ciB", number, letters[unit]);
		status = units_parse_size(text, &bytes);
		if (expected > UINT64_MAX)
			ck_assert_int_eq(status, -ERANGE);
		else
			ck_assert_msg(status == 0 && bytes == (uint64_t)expected, "%s", text);
	}
}
END_TEST

START_TEST(random_text)
{
	static const char alphabet[] = "0123456789.%KkMGTiBb smhnu-+x";

	for (int i = 0; i < 200000; i++) {
		char text[12] = "";
		size_t length = scratch_random() % sizeof(text);
		uint64_t value;
		double percent;
		bool truth;

		for (size_t c = 0; c < length; c++)
			text[c] = alphabet[scratch_random() % (sizeof(alphabet) - 1)];
		if (units_parse_size(text, &value) == 0 || units_parse_count(text, &value) == 0 ||
		    units_parse_duration(text, &value) == 0)
			ck_assert_msg(text[0] >= '0' && text[0] <= '9' &&
			                  !(text[0] == '0' && text[1] >= '0' && text[1] <= '9') &&
			                  !strpbrk(text, "-+x%"),
			              "'%s'", text);
		if (units_parse_percent(text, &percent) == 0)
			ck_assert_msg(percent >= 0 && percent <= 100, "'%s'", text);
		units_parse_bool(text, &truth);
	}
}
END_TEST

START_TEST(percents)
{
	static const struct {
		const char *text;
		double percent;
	} good[] = {{"0", 0},       {"70", 70},      {"70%", 70},  {"70 %", 70},
	            {"12.5", 12.5}, {"0.25%", 0.25}, {"100", 100}, {"100.0%", 100}};
	static const char *const bad[] = {"",   "%",   "-1",  "070",  "70%%",
	                                  "7o", "70 ", "1e1", "70 % "};
	static const char *const large[] = {"101", "100.1", "1000%", "99999999999999999999"};
	double percent = 7;

	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(units_parse_percent(bad[i], &percent) == -EINVAL, "'%s'", bad[i]);
	for (size_t i = 0; i < COUNT(large); i++)
		ck_assert_msg(units_parse_percent(large[i], &percent) == -ERANGE, "%s", large[i]);
	ck_assert(percent == 7);
	for (size_t i = 0; i < COUNT(good); i++) {
		ck_assert_msg(units_parse_percent(good[i].text, &percent) == 0, "%s", good[i].text);
		ck_assert_double_eq_tol(percent, good[i].percent, 1e-12);
	}
}
END_TEST

START_TEST(durations)
{
	static const struct {
		const char *text;
		uint64_t nanoseconds;
	} good[] = {
	    {"17ns", 17},          {"10us", 10000},        {"250ms", 250000000},
	    {"2s", 2000000000},    {"2", 2000000000},      {"1.5 s", 1500000000},
	    {"5m", 300000000000u}, {"1h", 3600000000000u}, {"0.1", 100000000},
	};
	static const char *const bad[] = {"",      "ms",    "-2s", "5M", "2S",
	                                  "1.5ns", "2 s s", "2d",  "02s"};
	uint64_t nanoseconds = 7;

	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(units_parse_duration(bad[i], &nanoseconds) == -EINVAL, "'%s'",
		              bad[i]);
	ck_assert_int_eq(units_parse_duration("18446744074", &nanoseconds), -ERANGE);
	ck_assert_uint_eq(nanoseconds, 7);
	for (size_t i = 0; i < COUNT(good); i++) {
		ck_assert_int_eq(units_parse_duration(good[i].text, &nanoseconds), 0);
		ck_assert_msg(nanoseconds == good[i].nanoseconds, "%s", good[i].text);
	}
}
END_TEST

START_TEST(counts_and_bools)
{
	static const char *const bad[] = {"", "1.0", "-1", "1 ", "1k", "0x1", "01"};
	uint64_t count = 7;
	bool truth = false;

	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(units_parse_count(bad[i], &count) == -EINVAL, "'%s'", bad[i]);
	ck_assert_int_eq(units_parse_count("18446744073709551616", &count), -ERANGE);
	ck_assert_uint_eq(count, 7);
	ck_assert(units_parse_count("42", &count) == 0 && count == 42);

	ck_assert(units_parse_bool("Yes", &truth) == 0 && truth);
	ck_assert(units_parse_bool("off", &truth) == 0 && !truth);
	ck_assert(units_parse_bool("1", &truth) == 0 && truth);
	ck_assert(units_parse_bool("FALSE", &truth) == 0 && !truth);
	ck_assert_int_eq(units_parse_bool("2", &truth), -EINVAL);
	ck_assert_int_eq(units_parse_bool("", &truth), -EINVAL);
	ck_assert_int_eq(units_parse_bool("yes ", &truth), -EINVAL);
}
END_TEST

START_TEST(formats)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes_as_text[] = {
	    {0, "0 B"},
	    {512, "512 B"},
	    {1023, "1023 B"},
	    {KIB, "1.00 KiB"},
	    {GIB + GIB / 2, "1.50 GiB"},
	    {10 * MIB, "10.0 MiB"},
	    {MIB - 1, "1.00 MiB"},
	    {1023 * MIB, "1023 MiB"},
	    {20 * GIB - 1, "20.0 GiB"},
	    {100 * GIB - 1, "100 GiB"},
	    {UINT64_MAX, "16.0 EiB"},
	};
	static const struct {
		uint64_t nanoseconds;
		const char *text;
	} times[] = {
	    {12, "12 ns"},         {17000, "17.0 us"},     {350000000, "350 ms"},
	    {999999999, "1.00 s"}, {1200000000, "1.20 s"}, {4000000000000, "4000 s"},
	};
	char buf[32];

	for (size_t i = 0; i < COUNT(sizes_as_text); i++)
		ck_assert_str_eq(units_format_size(sizes_as_text[i].bytes, buf, sizeof(buf)),
		                 sizes_as_text[i].text);
	for (size_t i = 0; i < COUNT(times); i++)
		ck_assert_str_eq(units_format_duration(times[i].nanoseconds, buf, sizeof(buf)),
		                 times[i].text);
}
END_TEST

/* What is printed can be read again, and is right to half a percent. */
START_TEST(random_formats)
{
	for (int i = 0; i < 20000; i++) {
		uint64_t value = scratch_random() >> (scratch_random() % 64);
		uint64_t back;
		char buf[32];
		double tolerance;

		value >>= 14; /* below 1024 TiB, the largest that is read */
		tolerance = (double)value * 0.005 + 1;
		ck_assert_int_eq(
		    units_parse_size(units_format_size(value, buf, sizeof(buf)), &back), 0);
		ck_assert_double_eq_tol((double)back, (double)value, tolerance);
		ck_assert_int_eq(
		    units_parse_duration(units_format_duration(value, buf, sizeof(buf)), &back), 0);
		ck_assert_double_eq_tol((double)back, (double)value, tolerance);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("units");
	TCase *tests = tcase_create("units");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, sizes);
	tcase_add_test(tests, no_sizes);
	tcase_add_test(tests, random_sizes);
	tcase_add_test(tests, random_text);
	tcase_add_test(tests, percents);
	tcase_add_test(tests, durations);
	tcase_add_test(tests, counts_and_bools);
	tcase_add_test(tests, formats);
	tcase_add_test(tests, random_formats);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
