/* SPDX-License-Identifier: MIT */
/* The registry: against a model, under races, and its rules one by one. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/registry/registry.h"
#include "suite.h"
#include "thing.h"

START_TEST(references)
{
	struct resource *resource = thing_new(&type[0], 1);
	ck_assert_uint_ne(resource->born_ns, 0);
	ck_assert_int_eq(registry_add(registry, NULL, "a", resource), 0);
	ck_assert_uint_eq(resource->references, 1);
	ck_assert_ptr_eq(registry_lookup(registry, "default", &type[0], "a"), resource);
	ck_assert_uint_eq(resource->references, 2);
	ck_assert_ptr_null(registry_lookup(registry, NULL, &type[1], "a"));
	ck_assert_ptr_null(registry_lookup(registry, "x", &type[0], "a"));
	ck_assert_int_eq(registry_delete(registry, "", &type[0], "a"), 0);
	ck_assert_int_eq(registry_delete(registry, "", &type[0], "a"), -ENOENT);
	ck_assert_int_eq(alive, 1); /* still ours */
	resource_release(resource);
	ck_assert_int_eq(alive, 0);
	resource_release(NULL);
}
END_TEST

START_TEST(names)
{
	struct resource *resource = thing_new(&type[0], 1), *again = thing_new(&type[0], 2);
	const char *longest = "1234567890123456789012345678901";
	ck_assert_int_eq(registry_add(registry, NULL, "", resource), -EINVAL);
	ck_assert_int_eq(registry_add(registry, NULL, NULL, resource), -EINVAL);
	ck_assert_int_eq(registry_add(registry, NULL, "a/b", resource), -EINVAL);
	ck_assert_int_eq(registry_add(registry, NULL, "a\n", resource), -EINVAL);
	ck_assert_int_eq(registry_add(registry, "a/b", "a", resource), -EINVAL);
	ck_assert_int_eq(registry_add(registry, NULL, "12345678901234567890123456789012", resource),
	                 -EINVAL);
	ck_assert_int_eq(registry_add(registry, longest, longest, resource), 0);
	ck_assert_int_eq(registry_add(registry, longest, longest, again), -EEXIST);
	ck_assert_int_eq(registry_add(registry, NULL, longest, again), 0);
	ck_assert_uint_eq(registry_count(registry, &type[0]), 2);
	ck_assert_uint_eq(registry_count(registry, NULL), 2);
	ck_assert_uint_eq(registry_count(registry, &type[1]), 0);
	ck_assert_uint_eq(registry_memory(registry, &type[0]), 3);
}
END_TEST

START_TEST(an_address_is_a_name)
{
	struct resource *resource = thing_new(&type[0], 1), *found;
	ck_assert_int_eq(registry_add_object(registry, "ctx1", 0x7f00deadbeef, resource), 0);
	found = registry_lookup(registry, "ctx1", &type[0], "00007f00deadbeef");
	ck_assert_ptr_eq(found, resource);
	resource_release(found);
	ck_assert_int_eq(registry_add(registry, "ctx1", "00007f00deadbeef", resource), -EEXIST);
	/* upper case and other lengths are plain text */
	ck_assert_ptr_null(registry_lookup(registry, "ctx1", &type[0], "00007F00DEADBEEF"));
	ck_assert_ptr_null(registry_lookup(registry, "ctx1", &type[0], "7f00deadbeef"));
	ck_assert_int_eq(registry_delete(registry, "ctx1", &type[0], "00007f00deadbeef"), 0);
	ck_assert_ptr_null(registry_lookup_object(registry, "ctx1", &type[0], 0x7f00deadbeef));
	struct resource *null = thing_new(&type[0], 2);
	ck_assert_int_eq(registry_add_object(registry, "ctx1", 0, null), 0);
	ck_assert_int_eq(registry_delete_object(registry, "ctx1", &type[0], 0), 0);
}
END_TEST

START_TEST(a_container_goes_as_a_whole)
{
	for (int i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof name, "n%d", i);
		registry_add(registry, i % 2 ? "ctx1" : "ctx2", name, thing_new(&type[i % 3], i));
		registry_add_object(registry, "ctx1", (uint64_t)i << 21, thing_new(&type[1], i));
	}
	ck_assert_uint_eq(registry_cleanup(registry, "ctx1"), 150);
	ck_assert_uint_eq(registry_cleanup(registry, "ctx1"), 0);
	ck_assert_int_eq(alive, 50);
	ck_assert_uint_eq(registry_count(registry, NULL), 50);
	ck_assert_uint_eq(registry_clear(registry), 50);
	ck_assert_uint_eq(registry_count(registry, NULL), 0);
	ck_assert_int_eq(alive, 0);
}
END_TEST

START_TEST(two_types_of_one_name_are_refused)
{
	static const struct resource_type twin = {.name = "thing", .destroy = thing_destroy};
	struct resource *resource = thing_new(&twin, 1);
	registry_add(registry, NULL, "a", thing_new(&type[0], 1));
	log_configure("off");
	ck_assert_int_eq(registry_add(registry, NULL, "b", resource), -EINVAL);
	resource_release(resource);
}
END_TEST

/* destroy and each may call the registry: nothing is locked then. */
static void nosy_destroy(struct resource *resource)
{
	resource_release(registry_lookup(registry, NULL, &type[0], "a"));
	thing_destroy(resource);
}

static void delete_seen(void *sum, const struct registry_entry *entry)
{
	*(int *)sum += value_of(entry->resource);
	ck_assert_int_eq(
	    registry_delete(registry, entry->container, entry->resource->type, entry->name), 0);
}

START_TEST(others_code_runs_unlocked)
{
	static const struct resource_type nosy = {.name = "nosy", .destroy = nosy_destroy};
	int sum = 0;
	registry_add(registry, NULL, "a", thing_new(&type[0], 1));
	registry_add(registry, NULL, "b", thing_new(&nosy, 2));
	registry_add_object(registry, "c", 0x1000, thing_new(&nosy, 4));
	ck_assert_uint_eq(registry_walk(registry, delete_seen, &sum), 3);
	ck_assert_int_eq(sum, 7);
	ck_assert_int_eq(alive, 0);
	ck_assert_uint_eq(registry_walk(registry, delete_seen, &sum), 0);
}
END_TEST

static struct resource *create_thing(void *calls)
{
	atomic_fetch_add((_Atomic int *)calls, 1);
	usleep(1000);
	return thing_new(&type[0], 5);
}

static struct resource *create_nothing(void *calls)
{
	atomic_fetch_add((_Atomic int *)calls, 1);
	return NULL;
}

static struct resource *create_other_type(void *unused)
{
	(void)unused;
	return thing_new(&type[1], 5);
}

static struct resource *create_itself(void *unused)
{
	(void)unused;
	return registry_lookup_or_create(registry, NULL, &type[0], "self", create_itself, NULL);
}

static struct resource *create_nested(void *calls)
{
	resource_release(
	    registry_lookup_or_create(registry, NULL, &type[0], "inner", create_thing, calls));
	return thing_new(&type[0], 6);
}

static struct resource *create_overtaken(void *unused)
{
	(void)unused;
	registry_add(registry, NULL, "overtaken", thing_new(&type[0], 1));
	return thing_new(&type[0], 2);
}

START_TEST(creating)
{
	_Atomic int calls = 0;
	struct resource *made =
	    registry_lookup_or_create(registry, NULL, &type[0], "a", create_thing, &calls);
	ck_assert_uint_eq(made->references, 2);
	ck_assert_ptr_eq(
	    registry_lookup_or_create(registry, NULL, &type[0], "a", create_thing, &calls), made);
	ck_assert_int_eq(calls, 1);
	resource_release(made);
	resource_release(made);
	ck_assert_ptr_null(
	    registry_lookup_or_create(registry, NULL, &type[0], "b", create_nothing, &calls));
	ck_assert_ptr_null(
	    registry_lookup_or_create(registry, NULL, &type[0], "b", create_other_type, NULL));
	ck_assert_ptr_null(
	    registry_lookup_or_create(registry, NULL, &type[0], "", create_thing, &calls));
	ck_assert_ptr_null(create_itself(NULL));
	ck_assert_int_eq(alive, 1);
	made = registry_lookup_or_create(registry, NULL, &type[0], "outer", create_nested, &calls);
	ck_assert_int_eq(value_of(made), 6);
	resource_release(made);
	made = registry_lookup_or_create(registry, NULL, &type[0], "overtaken", create_overtaken,
	                                 NULL);
	ck_assert_int_eq(value_of(made), 1);
	resource_release(made);
	ck_assert_int_eq(alive, 4);
}
END_TEST

enum { THREADS = 8, ROUNDS = 40 };

struct race {
	pthread_barrier_t start;
	_Atomic int calls[ROUNDS];
	struct resource *got[ROUNDS][THREADS];
	_Atomic int threads;
};

static void *race_to_create(void *argument)
{
	struct race *race = argument;
	int me = atomic_fetch_add(&race->threads, 1);
	for (int round = 0; round < ROUNDS; round++) {
		char name[16];
		snprintf(name, sizeof name, "r%d", round);
		pthread_barrier_wait(&race->start);
		race->got[round][me] = registry_lookup_or_create(registry, "ctx", &type[0], name,
		                                                 create_thing, &race->calls[round]);
	}
	return NULL;
}

START_TEST(one_creates_and_all_get_it)
{
	static struct race race;
	pthread_t thread[THREADS];
	pthread_barrier_init(&race.start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, race_to_create, &race);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int round = 0; round < ROUNDS; round++) {
		ck_assert_int_eq(race.calls[round], 1);
		ck_assert_uint_eq(race.got[round][0]->references, THREADS + 1);
		for (int i = 0; i < THREADS; i++) {
			ck_assert_ptr_eq(race.got[round][i], race.got[round][0]);
			resource_release(race.got[round][i]);
		}
	}
	pthread_barrier_destroy(&race.start);
}
END_TEST

/* Everything at once; what remains is that each resource is destroyed exactly once. */
static void *stress(void *seed)
{
	unsigned random = *(unsigned *)seed;
	for (int i = 0; i < 5000; i++) {
		char name[16], container[16];
		const struct resource_type *of = &type[rand_r(&random) % 2];
		uint64_t address = (uint64_t)(rand_r(&random) % 50) << 21;
		snprintf(name, sizeof name, "n%d", rand_r(&random) % 20);
		snprintf(container, sizeof container, "ctx%d", rand_r(&random) % 3);
		struct resource *resource = NULL;
		_Atomic int calls = 0;
		switch (rand_r(&random) % 8) {
		case 0:
		case 1:
			resource = thing_new(of, i);
			if (registry_add_object(registry, container, address, resource) == 0)
				resource = NULL;
			break;
		case 2:
			resource = registry_lookup_object(registry, container, of, address);
			break;
		case 3:
			registry_delete_object(registry, container, of, address);
			break;
		case 4:
			resource = registry_lookup_or_create(registry, container, &type[1], name,
			                                     create_other_type, &calls);
			break;
		case 5:
			registry_delete(registry, container, of, name);
			break;
		case 6:
			resource = registry_lookup(registry, container, of, name);
			break;
		default:
			if (i % 50 == 0)
				registry_cleanup(registry, container);
			if (i % 50 == 1)
				registry_memory(registry, &type[0]);
		}
		resource_release(resource);
	}
	return NULL;
}

START_TEST(threads)
{
	pthread_t thread[THREADS];
	unsigned seed[THREADS];
	for (unsigned i = 0; i < THREADS; i++) {
		seed[i] = i + 1;
		pthread_create(&thread[i], NULL, stress, &seed[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	size_t left = registry_count(registry, NULL);
	ck_assert_int_eq(alive, (int)left);
	ck_assert_uint_eq(registry_clear(registry), left);
}
END_TEST

/* Random sequences against a plain array. */
enum { CONTAINERS = 2, TYPES = 3, NAMES = 40 };

START_TEST(as_the_model)
{
	struct resource *model[CONTAINERS][TYPES][NAMES] = {0};
	static const char *const containers[] = {"default", "ctx1"};
	size_t count = 0;
	srand(_i + 1);
	for (int step = 0; step < 20000; step++) {
		int c = rand() % CONTAINERS, t = rand() % TYPES, n = rand() % NAMES;
		struct resource **expected = &model[c][t][n], *got;
		char name[20];
		/* even names are text, odd ones addresses close together */
		uint64_t address = 0x7f0000000000 + (uint64_t)n * 512;
		snprintf(name, sizeof name, n % 2 ? "%016llx" : "%llx-text",
		         (unsigned long long)address);
		switch (rand() % 4) {
		case 0:
			got = thing_new(&type[t], step);
			if (registry_add(registry, containers[c], name, got) == 0) {
				ck_assert_ptr_null(*expected);
				*expected = got;
				count++;
			} else {
				ck_assert_ptr_nonnull(*expected);
				resource_release(got);
			}
			break;
		case 1:
			got = registry_lookup(registry, containers[c], &type[t], name);
			ck_assert_ptr_eq(got, *expected);
			resource_release(got);
			break;
		case 2:
			ck_assert_int_eq(registry_delete(registry, containers[c], &type[t], name),
			                 *expected ? 0 : -ENOENT);
			count -= *expected != NULL;
			*expected = NULL;
			break;
		default:
			if (step % 500 == 0) {
				count -= registry_cleanup(registry, containers[c]);
				memset(model[c], 0, sizeof model[c]);
			}
		}
		ck_assert_uint_eq(registry_count(registry, NULL), count);
		ck_assert_int_eq(alive, (int)count);
	}
}
END_TEST

START_TEST(many_addresses_are_kept)
{
	enum { MANY = 20000 };
	struct resource *again = thing_new(&type[0], 0);

	for (uint64_t i = 1; i <= MANY; i++)
		ck_assert_int_eq(
		    registry_add_object(registry, "ctx1", i << 9, thing_new(&type[0], (int)i)), 0);
	ck_assert_int_eq(registry_add_object(registry, "ctx1", 1 << 9, again), -EEXIST);
	resource_release(again);
	for (uint64_t i = 2; i <= MANY; i += 2)
		ck_assert_int_eq(registry_delete_object(registry, "ctx1", &type[0], i << 9), 0);
	for (uint64_t i = 1; i <= MANY; i++) {
		struct resource *found = registry_lookup_object(registry, "ctx1", &type[0], i << 9);
		struct resource *from_elsewhere =
		    registry_find_object(registry, "none", &type[0], i << 9);

		ck_assert_int_eq(found != NULL, i % 2);
		ck_assert_ptr_eq(from_elsewhere, found);
		ck_assert_ptr_null(registry_lookup_object(registry, "ctx1", &type[1], i << 9));
		resource_release(found);
		resource_release(from_elsewhere);
	}
	ck_assert_uint_eq(registry_count(registry, NULL), MANY / 2);
}
END_TEST

START_TEST(an_object_is_found_whichever_container_it_is_in)
{
	struct resource *here = thing_new(&type[0], 1), *there = thing_new(&type[0], 2), *found;
	struct resource *taken, *left;

	ck_assert_int_eq(registry_add_object(registry, "ctx1", 7, here), 0);
	ck_assert_int_eq(registry_add_object(registry, "ctx2", 7, there), 0);
	found = registry_find_object(registry, "ctx1", &type[0], 7);
	ck_assert_ptr_eq(found, here);
	resource_release(found);
	found = registry_find_object(registry, "ctx2", &type[0], 7);
	ck_assert_ptr_eq(found, there);
	resource_release(found);
	taken = registry_take_object(registry, &type[0], 7);
	ck_assert(taken == here || taken == there);
	ck_assert_uint_eq(registry_count(registry, &type[0]), 1);
	resource_release(taken);
	left = taken == here ? there : here;
	ck_assert_ptr_eq(registry_take_object(registry, &type[0], 7), left);
	ck_assert_ptr_null(registry_take_object(registry, &type[0], 7));
	ck_assert_int_eq(registry_add_object(registry, "ctx1", 7, left), 0);
	ck_assert_uint_eq(registry_cleanup(registry, "ctx1"), 1);
	ck_assert_int_eq(alive, 0);
}
END_TEST

static struct leaving leave(const char *container, uint64_t object)
{
	return registry_leave(registry, object,
	                      registry_find_object(registry, container, &type[0], object));
}

/* Returns whether it was this call that took it out; nothing is asked about it any more. */
static bool left(struct leaving *leaving, bool gone)
{
	bool taken = registry_left(leaving, gone);

	resource_release(leaving->resource);
	return taken;
}

/* Entries are moved when others are taken out, and when the table grows. */
START_TEST(what_leaves_is_taken_out_wherever_its_entry_has_been_moved)
{
	enum { MANY = 512 };
	struct leaving leaving[MANY / 2], again;

	for (uint64_t i = 0; i < MANY; i++)
		ck_assert_int_eq(
		    registry_add_object(registry, "ctx1", i, thing_new(&type[0], (int)i)), 0);
	for (uint64_t i = 0; i < MANY / 2; i++) {
		ck_assert(
		    registry_leave_object(registry, "ctx1", &type[0], 2 * i, true, &leaving[i]));
		ck_assert(resource_is_leaving(leaving[i].resource));
	}
	/* Nothing is begun of what is leaving already. */
	ck_assert(!registry_leave_object(registry, "ctx1", &type[0], 0, true, &again));
	ck_assert_ptr_null(again.resource);
	for (uint64_t i = 0; i < MANY / 4; i++)
		registry_delete_object(registry, "ctx1", &type[0], 2 * i + 1);
	for (uint64_t i = MANY; i < 2 * MANY; i++)
		ck_assert_int_eq(
		    registry_add_object(registry, "ctx1", i, thing_new(&type[0], (int)i)), 0);
	for (uint64_t i = MANY / 2; i-- > 0;) {
		ck_assert(left(&leaving[i], true));
		ck_assert_ptr_null(registry_lookup_object(registry, "ctx1", &type[0], 2 * i));
	}
	ck_assert_uint_eq(registry_count(registry, &type[0]), MANY + MANY / 4);
}
END_TEST

START_TEST(what_leaves_is_there_until_it_has_left)
{
	struct resource *old = thing_new(&type[0], 1), *new = thing_new(&type[0], 2), *found;
	struct leaving leaving, again;

	ck_assert_int_eq(registry_add_object(registry, "ctx1", 7, old), 0);
	leaving = leave("ctx1", 7);
	ck_assert(resource_is_leaving(old));
	ck_assert_uint_eq(registry_count(registry, &type[0]), 1);
	ck_assert(!left(&leaving, false)); /* refused */
	ck_assert(!resource_is_leaving(old));

	/* Two threads ask, and the driver agrees to one of them. */
	leaving = leave("ctx1", 7);
	again = leave("ctx1", 7);
	ck_assert_ptr_eq(leaving.resource, again.resource);
	ck_assert(!left(&again, false));
	ck_assert(resource_is_leaving(old));

	/*
	 * In another container its address stands for another one already: that is found, and
	 * stays.
	 */
	ck_assert_int_eq(registry_add_object(registry, "ctx2", 7, new), 0);
	found = registry_find_object(registry, "ctx1", &type[0], 7);
	ck_assert_ptr_eq(found, new);
	resource_release(found);
	ck_assert(left(&leaving, true));
	ck_assert_int_eq(alive, 1);

	/* The same in its own container. */
	leaving = leave("ctx2", 7);
	ck_assert_ptr_eq(leaving.resource, new);
	ck_assert_int_eq(registry_replace_object(registry, "ctx2", 7, thing_new(&type[0], 3)), 0);
	ck_assert_int_eq(alive, 2); /* who asks has it still */
	ck_assert(!left(&leaving, true));
	ck_assert_int_eq(alive, 1);
	ck_assert_uint_eq(registry_count(registry, &type[0]), 1);

	leaving = leave("ctx2", 8);
	ck_assert_ptr_null(leaving.resource);
	ck_assert(!left(&leaving, true));
	ck_assert_uint_eq(registry_cleanup(registry, "ctx2"), 1);
	ck_assert_int_eq(alive, 0);
}
END_TEST

/* Others read how many there are without asking. */
START_TEST(resources_are_counted_in_the_caller_s_word)
{
	_Atomic uint64_t count = 99;

	ck_assert_int_eq(registry_add_object(registry, "ctx1", 7, thing_new(&type[0], 1)), 0);
	ck_assert_int_eq(registry_count_in(registry, &type[0], &count), 0);
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(registry_add_object(registry, "ctx2", 7, thing_new(&type[0], 2)), 0);
	ck_assert_int_eq(registry_add_object(registry, "ctx2", 7, thing_new(&type[1], 3)), 0);
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(registry_count(registry, &type[0]), 2);
	ck_assert_int_eq(registry_delete_object(registry, "ctx1", &type[0], 7), 0);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(registry_cleanup(registry, "ctx2"), 2);
	ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(an_address_that_comes_again_stands_for_the_new_object)
{
	struct resource *old = thing_new(&type[0], 1), *new = thing_new(&type[0], 2), *found;

	ck_assert_int_eq(registry_replace_object(registry, "ctx1", 7, old), 0);
	ck_assert_int_eq(registry_replace_object(registry, "ctx1", 7, resource_hold(new)), 0);
	ck_assert_int_eq(alive, 1);
	ck_assert_uint_eq(registry_count(registry, &type[0]), 1);
	found = registry_lookup_object(registry, "ctx1", &type[0], 7);
	ck_assert_ptr_eq(found, new);
	resource_release(found);
	/* Who was told to delete the first finds that it is gone. */
	old = resource_hold(thing_new(&type[0], 3));
	ck_assert_int_eq(registry_delete_resource(registry, 7, old), -ENOENT);
	ck_assert_int_eq(registry_delete_resource(registry, 7, new), 0);
	ck_assert_int_eq(registry_delete_resource(registry, 7, new), -ENOENT);
	ck_assert(resource_hold_if_alive(new));
	resource_release(new);
	resource_release(new);
	resource_release(old);
	resource_release(old);
	ck_assert_int_eq(alive, 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("registry");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, references);
	tcase_add_test(tests, names);
	tcase_add_test(tests, an_address_is_a_name);
	tcase_add_test(tests, a_container_goes_as_a_whole);
	tcase_add_test(tests, two_types_of_one_name_are_refused);
	tcase_add_test(tests, others_code_runs_unlocked);
	tcase_add_test(tests, creating);
	tcase_add_test(tests, one_creates_and_all_get_it);
	tcase_add_test(tests, threads);
	tcase_add_loop_test(tests, as_the_model, 0, 5);
	tcase_add_test(tests, many_addresses_are_kept);
	tcase_add_test(tests, an_object_is_found_whichever_container_it_is_in);
	tcase_add_test(tests, what_leaves_is_there_until_it_has_left);
	tcase_add_test(tests, what_leaves_is_taken_out_wherever_its_entry_has_been_moved);
	tcase_add_test(tests, an_address_that_comes_again_stands_for_the_new_object);
	tcase_add_test(tests, resources_are_counted_in_the_caller_s_word);
	return suite_run("registry", tests);
}
