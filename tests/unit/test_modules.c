/* SPDX-License-Identifier: MIT */
/* The kernel calls each hook of the table's modules in their order, and does without hooks. */
#include "core/job/module.h"
#include "tests/unit/suite.h"

static char calls[256];

static void note(const char *call)
{
	strcat(calls, call);
	strcat(calls, " ");
}

static void first_started(void)
{
	note("first.started");
}

static void first_tick(int *look_ms)
{
	note("first.tick");
	if (*look_ms > 10)
		*look_ms = 10;
}

static void last_tick(int *look_ms)
{
	note(*look_ms == 10 ? "last.tick(10)" : "last.tick");
}

static const struct module first = {.name = "first", .started = first_started, .tick = first_tick},
                           hookless = {.name = "hookless"},
                           last = {.name = "last", .tick = last_tick};
/* In place of the table of the build. */
const struct module *const modules[] = {&first, &hookless, &last, NULL};

START_TEST(calls_each_hook_there_is)
{
	calls[0] = '\0';
	modules_call(started);
	ck_assert_str_eq(calls, "first.started ");
}
END_TEST

START_TEST(hands_on_when_to_wake)
{
	int look_ms = 1000;

	calls[0] = '\0';
	modules_call(tick, &look_ms);
	ck_assert_int_eq(look_ms, 10);
	ck_assert_str_eq(calls, "first.tick last.tick(10) ");
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("modules");

	tcase_add_test(tests, calls_each_hook_there_is);
	tcase_add_test(tests, hands_on_when_to_wake);
	return suite_run("modules", tests);
}
