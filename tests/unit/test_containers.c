/* SPDX-License-Identifier: MIT */
/*
 * Tests of the parts above the registry: container info, anonymous resources, containers of steps,
 * records kept for objects, and handles of the wrong kind.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "tools/events/container_info.h"
#include "tools/events/deleter.h"
#include "core/registry/object.h"
#include "core/registry/step_container.h"
#include "suite.h"
#include "thing.h"

/* --- container info --- */

START_TEST(where_and_by_which_name)
{
	static const struct {
		struct container_wish wish;
		const char *container, *name;
		bool is_private;
	} row[] = {
	    {{NULL, "given", "own", true}, "default", "given", false},
	    {{"", "given", NULL, false}, "default", "given", false},
	    {{"ctx1", "given", "own", false}, "ctx1", "given", false},
	    {{"ctx1", NULL, "own", true}, "ctx1", "own", false},
	    {{"ctx1", "", "own", true}, "ctx1", "own", false},
	    {{"ctx1", NULL, "own", false}, "ctx1", "_1_own", true},
	    {{NULL, NULL, "own", false}, "default", "_2_own", true},
	    {{NULL, NULL, NULL, false}, "default", "_3", true},
	    {{NULL, NULL, NULL, true}, "default", "_4", true},
	    {{NULL, NULL, "a/b", false}, "default", "_5", true},
	    {{NULL, "", "1234567890123456789012345678901", false},
	     "default",
	     "_6_1234567890123456789012345678",
	     true},
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct container_info info = {0};
		ck_assert_int_eq(container_info_make(&row[i].wish, &info), 0);
		ck_assert_str_eq(info.container, row[i].container);
		ck_assert_str_eq(info.name, row[i].name);
		ck_assert_int_eq(info.is_private, row[i].is_private);
	}
}
END_TEST

START_TEST(names_that_nobody_may_give)
{
	static const struct container_wish bad[] = {
	    {.name = "_1"},
	    {.name = "a/b"},
	    {.name = "12345678901234567890123456789012"},
	    {.own_name = "_own", .shares_own_name = true},
	    {.own_name = "a\n", .shares_own_name = true},
	    {.container = "a/b", .name = "a"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct container_info info = {.name = "before"};
		ck_assert_int_eq(container_info_make(&bad[i], &info), -EINVAL);
		ck_assert_str_eq(info.name, "before");
	}
}
END_TEST

START_TEST(what_is_private_goes_with_its_maker)
{
	struct container_info private, shared;

	container_info_make(&(struct container_wish){.own_name = "own"}, &private);
	container_info_make(&(struct container_wish){.name = "all"}, &shared);
	registry_add(registry, private.container, private.name, thing_new(&type[0], 1));
	registry_add(registry, shared.container, shared.name, thing_new(&type[0], 2));
	ck_assert(!container_info_end(registry, &shared, &type[0]));
	ck_assert(container_info_end(registry, &private, &type[0]));
	ck_assert(!container_info_end(registry, &private, &type[0]));
	ck_assert_uint_eq(registry_memory(registry, NULL), 2);
}
END_TEST

/* --- anonymous resources --- */

START_TEST(a_deleter_deletes_with_its_last_reference)
{
	struct resource *deleter, *found;
	struct handle handle;

	ck_assert_int_eq(registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 7), &deleter),
	                 0);
	ck_assert_uint_eq(registry_count(registry, NULL), 1);
	deleter_handle(deleter, &handle);
	ck_assert_str_eq(handle.container, "ctx1");
	ck_assert_int_eq(handle.name[0], '_');
	ck_assert_int_eq(registry_lookup_handle(registry, &handle, &found), 0);
	ck_assert_int_eq(value_of(found), 7);
	resource_release(found);
	resource_hold(deleter);
	resource_release(deleter);
	ck_assert(handle_is_initialized(registry, &handle));
	resource_release(deleter);
	ck_assert(!handle_is_initialized(registry, &handle));
	ck_assert_int_eq(alive, 0);
}
END_TEST

START_TEST(a_deleter_bears_that_it_is_gone)
{
	struct resource *by_handle, *by_cleanup, *after;
	struct handle handle;

	registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 1), &by_handle);
	registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 2), &by_cleanup);
	deleter_handle(by_handle, &handle);
	ck_assert_int_eq(registry_delete_handle(registry, &handle), 0);
	ck_assert_uint_eq(registry_cleanup(registry, "ctx1"), 1);
	ck_assert_int_eq(alive, 0);
	/* one made since is another's */
	registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 3), &after);
	resource_release(by_handle);
	resource_release(by_cleanup);
	ck_assert_int_eq(alive, 1);
	resource_release(after);
	ck_assert_int_eq(alive, 0);
}
END_TEST

START_TEST(an_anonymous_resource_that_is_refused_stays_its_makers)
{
	struct resource *thing = thing_new(&type[0], 1), *deleter = NULL;

	ck_assert_int_eq(registry_add_anonymous(registry, "a/b", thing, &deleter), -EINVAL);
	ck_assert_ptr_null(deleter);
	ck_assert_uint_eq(thing->references, 1);
	resource_release(thing);
}
END_TEST

/* A deleter in the registry: the one goes with the other, also when all is cleared at once. */
START_TEST(a_deleter_may_be_registered)
{
	struct resource *deleter;

	registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 1), &deleter);
	ck_assert_int_eq(registry_add(registry, "ctx2", "owner", deleter), 0);
	ck_assert_uint_eq(registry_cleanup(registry, "ctx2"), 1);
	ck_assert_int_eq(alive, 0);
	registry_add_anonymous(registry, "ctx1", thing_new(&type[0], 1), &deleter);
	ck_assert_int_eq(registry_add(registry, "ctx1", "owner", deleter), 0);
	ck_assert_uint_eq(registry_clear(registry), 2);
}
END_TEST

/* --- steps --- */

static struct resource *make_thing(void *calls)
{
	++*(int *)calls;
	return thing_new(&type[0], 5);
}

START_TEST(what_was_made_within_a_step_goes_with_it)
{
	struct step_container step;
	struct resource *found;
	int calls = 0;

	step_container_begin(&step, registry, 17);
	resource_release(step_container_lookup_or_create(&step, &type[0], "a", make_thing, &calls));
	found = step_container_lookup_or_create(&step, &type[0], "b", make_thing, &calls);
	resource_release(found);
	ck_assert_ptr_eq(step_container_lookup_or_create(&step, &type[0], "b", make_thing, &calls),
	                 found);
	ck_assert_int_eq(calls, 2);
	resource_release(found);
	found = registry_lookup(registry, "step17", &type[0], "a");
	ck_assert_ptr_nonnull(found);
	registry_add(registry, NULL, "stays", thing_new(&type[0], 1));
	ck_assert_uint_eq(step_container_end(&step), 2);
	ck_assert_uint_eq(step_container_end(&step), 0);
	ck_assert_int_eq(alive, 2); /* one is held by us */
	resource_release(found);

	/* too late */
	ck_assert_ptr_null(
	    step_container_lookup_or_create(&step, &type[0], "late", make_thing, &calls));
	ck_assert_int_eq(calls, 2);
	ck_assert_uint_eq(registry_count(registry, NULL), 1);

	/* the next one; of one that nothing is in there is no trace */
	step_container_begin(&step, registry, 18);
	ck_assert_uint_eq(step_container_end(&step), 0);
}
END_TEST

static struct resource *end_and_make(void *step)
{
	ck_assert_uint_eq(step_container_end(step), 0);
	return thing_new(&type[0], 1);
}

START_TEST(a_step_that_ends_meanwhile_keeps_nothing)
{
	struct step_container step;

	step_container_begin(&step, registry, 17);
	ck_assert_ptr_null(
	    step_container_lookup_or_create(&step, &type[0], "a", end_and_make, &step));
	ck_assert_int_eq(alive, 0);
	ck_assert_uint_eq(registry_count(registry, NULL), 0);
}
END_TEST

enum { STEPS = 300, MAKERS = 4 };

static struct step_container racing[STEPS];
static _Atomic int made_in_time;

static void *make_in_steps(void *barrier)
{
	for (int i = 0; i < STEPS; i++) {
		struct resource *thing;
		char name[24];
		int calls = 0;

		snprintf(name, sizeof name, "%p", (void *)&thing);
		pthread_barrier_wait(barrier);
		thing =
		    step_container_lookup_or_create(&racing[i], &type[0], name, make_thing, &calls);
		made_in_time += thing != NULL;
		resource_release(thing);
	}
	return NULL;
}

/* Its end may fall anywhere in what is put in: nothing is left, and nothing lost. */
START_TEST(a_step_ends_while_things_are_made_in_it)
{
	pthread_t thread[MAKERS];
	pthread_barrier_t barrier;

	for (int i = 0; i < STEPS; i++)
		step_container_begin(&racing[i], registry, (uint64_t)i);
	pthread_barrier_init(&barrier, NULL, MAKERS + 1);
	for (int i = 0; i < MAKERS; i++)
		pthread_create(&thread[i], NULL, make_in_steps, &barrier);
	for (int i = 0; i < STEPS; i++) {
		pthread_barrier_wait(&barrier);
		for (volatile int pause = 0; pause < i * 20; pause++)
			;
		step_container_end(&racing[i]);
	}
	for (int i = 0; i < MAKERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(alive, 0);
	ck_assert_uint_eq(registry_count(registry, NULL), 0);
	pthread_barrier_destroy(&barrier);
}
END_TEST

/* --- what an object keeps --- */

static struct resource *stream_object(uint64_t address)
{
	object_track(registry, "ctx1", &object_type_stream, (void *)(uintptr_t)address);
	return registry_lookup_object(registry, "ctx1", &object_type_stream, address);
}

static struct resource *make_nothing(void *calls)
{
	++*(int *)calls;
	return NULL;
}

START_TEST(what_an_object_keeps_goes_with_it)
{
	struct resource *stream = stream_object(0x1000), *kept;
	int calls = 0;

	ck_assert_ptr_null(object_kept(stream, &type[0], make_nothing, &calls));
	ck_assert_int_eq(calls, 1);
	kept = object_kept(stream, &type[0], make_thing, &calls);
	ck_assert_ptr_nonnull(kept);
	ck_assert_ptr_eq(object_kept(stream, &type[0], make_thing, &calls), kept);
	ck_assert_int_eq(calls, 2);
	ck_assert_uint_eq(kept->references, 3);
	resource_release(kept);
	resource_release(stream);
	registry_cleanup(registry, "ctx1");
	/* the object is gone, and of what it kept there is but our reference */
	ck_assert_int_eq(alive, 1);
	ck_assert_uint_eq(kept->references, 1);
	resource_release(kept);
	/* one that comes at this address keeps nothing of it */
	stream = stream_object(0x1000);
	kept = object_kept(stream, &type[0], make_thing, &calls);
	ck_assert_int_eq(calls, 3);
	resource_release(kept);
	resource_release(stream);
}
END_TEST

START_TEST(what_an_object_keeps_is_verified)
{
	struct resource *stream = stream_object(0x1000), *event, *kept;
	char said[200] = "", path[200];
	int calls = 0;
	FILE *log;

	snprintf(path, sizeof path, "error:%s/log", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	remove(path + strlen("error:"));
	log_configure(path);
	ck_assert_ptr_null(object_kept(stream, &type[1], make_thing, &calls));
	ck_assert_int_eq(alive, 0);
	kept = object_kept(stream, &type[0], make_thing, &calls);
	ck_assert_ptr_nonnull(kept);
	resource_release(kept);
	ck_assert_ptr_null(object_kept(stream, &type[1], make_thing, &calls));
	ck_assert_int_eq(calls, 2);
	resource_release(stream);
	log = fopen(path + strlen("error:"), "r");
	ck_assert_ptr_nonnull(fgets(said, sizeof said, log));
	ck_assert_str_eq(said, "spillway: error: stream 0000000000001000: keeps one of type thing, "
	                       "expected type other\n");
	fclose(log);
	remove(path + strlen("error:"));

	/* events, of which there are many, have no room for it */
	object_track(registry, "ctx1", &object_type_event, (void *)0x1000);
	event = registry_lookup_object(registry, "ctx1", &object_type_event, 0x1000);
	ck_assert_ptr_null(object_kept(event, &type[0], make_thing, &calls));
	ck_assert_int_eq(calls, 2);
	resource_release(event);
}
END_TEST

static struct resource *make_one(void *unused)
{
	(void)unused;
	return thing_new(&type[0], 1);
}

static void *keep(void *stream)
{
	return object_kept(stream, &type[0], make_one, NULL);
}

START_TEST(all_who_ask_at_once_get_the_same)
{
	for (uint64_t round = 1; round <= 200; round++) {
		struct resource *stream = stream_object(round << 12);
		pthread_t thread[MAKERS];
		void *kept[MAKERS];

		for (int i = 0; i < MAKERS; i++)
			pthread_create(&thread[i], NULL, keep, stream);
		for (int i = 0; i < MAKERS; i++)
			pthread_join(thread[i], &kept[i]);
		for (int i = 0; i < MAKERS; i++) {
			ck_assert_ptr_eq(kept[i], kept[0]);
			ck_assert_uint_eq(((struct resource *)kept[i])->references,
			                  1u + MAKERS - (unsigned int)i);
			resource_release(kept[i]);
		}
		resource_release(stream);
		ck_assert_int_eq(alive, (int)round);
	}
}
END_TEST

/* --- handles of the wrong kind --- */

#define HERE "/job:job/process:4711/gpu:0/"

/* Expects what is answered and said of the handle. */
static void expect_verified(struct registry *of, const char *text, int answer, const char *said)
{
	struct resource *found = NULL;
	char message[600] = "";
	struct handle handle;

	ck_assert_int_eq(handle_parse(text, &handle), 0);
	ck_assert_int_eq(
	    registry_lookup_verified(of, &handle, &type[0], &found, message, sizeof message),
	    answer);
	ck_assert_int_eq(found != NULL, answer == 0);
	ck_assert_str_eq(message, said);
	resource_release(found);
}

START_TEST(a_handle_is_verified)
{
	struct registry *elsewhere = registry_create("job", 4711, 1);

	registry_add(registry, "ctx1", "a", thing_new(&type[0], 1));
	registry_add(registry, "ctx1", "b", thing_new(&type[1], 1));
	expect_verified(registry, HERE "ctx1/thing/a", 0, "");
	expect_verified(registry, HERE "ctx1/other/b", -EPROTOTYPE,
	                HERE "ctx1/other/b: names a resource of type other, expected type thing");
	expect_verified(elsewhere, HERE "ctx1/thing/a", -EXDEV,
	                HERE "ctx1/thing/a: is of another device, expected "
	                     "/job:job/process:4711/gpu:1");
	expect_verified(registry, HERE "ctx1/thing/b", -ENOENT,
	                HERE "ctx1/thing/b: is not there, but one of type other is");
	expect_verified(registry, HERE "ctx1/thing/c", -ENOENT, HERE "ctx1/thing/c: is not there");
	expect_verified(registry, HERE "ctx2/thing/a", -ENOENT,
	                HERE "ctx2/thing/a: there is no container ctx2");
	registry_destroy(elsewhere);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("containers");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, where_and_by_which_name);
	tcase_add_test(tests, names_that_nobody_may_give);
	tcase_add_test(tests, what_is_private_goes_with_its_maker);
	tcase_add_test(tests, a_deleter_deletes_with_its_last_reference);
	tcase_add_test(tests, a_deleter_bears_that_it_is_gone);
	tcase_add_test(tests, an_anonymous_resource_that_is_refused_stays_its_makers);
	tcase_add_test(tests, a_deleter_may_be_registered);
	tcase_add_test(tests, what_was_made_within_a_step_goes_with_it);
	tcase_add_test(tests, a_step_that_ends_meanwhile_keeps_nothing);
	tcase_add_test(tests, a_step_ends_while_things_are_made_in_it);
	tcase_add_test(tests, what_an_object_keeps_goes_with_it);
	tcase_add_test(tests, what_an_object_keeps_is_verified);
	tcase_add_test(tests, all_who_ask_at_once_get_the_same);
	tcase_add_test(tests, a_handle_is_verified);
	return suite_run("containers", tests);
}
