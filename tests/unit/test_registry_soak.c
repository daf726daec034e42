/* SPDX-License-Identifier: MIT */
/*
 * The registry under sixteen threads that do everything at once. Afterwards each object that is
 * there has the registry's reference and no other. Each object that is not there was destroyed
 * once. No two threads ever created the same object at the same time.
 *
 * test_registry_soak [SECONDS]: 1 by itself. Meant for the thread sanitizer, too: 30 s of it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/events/deleter.h"
#include "core/registry/step_container.h"
#include "suite.h"
#include "thing.h"

enum { THREADS = 16, CONTAINERS = 3, ADDRESSES = 64, NAMES = 24, KINDS = 14, KEPT = 8 };

static int seconds = 1;
static _Atomic bool is_over;
static _Atomic long done, created_at_once, wrong;
static _Atomic int creating[NAMES];

struct worker {
	pthread_t thread;
	unsigned int random, turn;
	struct resource *deleter[KEPT];
	struct step_container step;
	uint64_t steps;
};

static unsigned int any(struct worker *w, unsigned int below)
{
	return (unsigned int)rand_r(&w->random) % below;
}

static const char *any_container(struct worker *w)
{
	static const char *const containers[CONTAINERS] = {"default", "ctx1", "ctx2"};

	return containers[any(w, CONTAINERS)];
}

static uint64_t any_address(struct worker *w)
{
	return (uint64_t)any(w, ADDRESSES) << 21;
}

static struct resource *create(void *cookie)
{
	_Atomic int *at = cookie;
	struct resource *made;

	if (atomic_exchange(at, 1))
		created_at_once++;
	sched_yield(); /* for those who want the same */
	made = thing_new(&type[1], 1);
	atomic_store(at, 0);
	return made;
}

static void look_up_or_create(struct worker *w)
{
	unsigned int number = any(w, NAMES);
	struct resource *found;
	char name[16];

	snprintf(name, sizeof name, "n%u", number);
	found = registry_lookup_or_create(registry, "shared", &type[1], name, create,
	                                  &creating[number]);
	wrong += !found || found->type != &type[1];
	resource_release(found);
	if (any(w, 4) == 0)
		registry_delete(registry, "shared", &type[1], name);
}

static void look_up_many(struct worker *w)
{
	for (size_t i = 0; i < ADDRESSES; i++) {
		struct resource *found =
		    registry_lookup_object(registry, any_container(w), &type[0], any_address(w));

		wrong += found && found->type != &type[0];
		resource_release(found);
	}
}

/* Replaces one of the deleters that the thread has. */
static void own(struct worker *w)
{
	struct resource **at = &w->deleter[any(w, KEPT)], *thing = thing_new(&type[2], 1);

	resource_release(*at);
	*at = NULL;
	if (registry_add_anonymous(registry, any_container(w), thing, at) != 0)
		resource_release(thing);
}

static struct resource *make_for_step(void *unused)
{
	(void)unused;
	return thing_new(&type[2], 1);
}

static void step(struct worker *w)
{
	char name[24];

	if (any(w, 4) == 0) {
		step_container_end(&w->step);
		step_container_begin(&w->step, registry, ++w->steps * THREADS + w->turn % THREADS);
	}
	snprintf(name, sizeof name, "s%u", any(w, 8));
	resource_release(
	    step_container_lookup_or_create(&w->step, &type[2], name, make_for_step, NULL));
}

static void see(void *cookie, const struct registry_entry *entry)
{
	struct handle handle;

	(void)cookie;
	wrong += handle_make(registry, entry->container, entry->resource->type, entry->name,
	                     &handle) != 0;
	(void)handle_is_initialized(registry, &handle);
}

static void act(struct worker *w)
{
	struct resource *r = NULL, *before;
	const struct resource_type *of = &type[any(w, 2)];
	uint64_t address = any_address(w);

	switch (any(w, KINDS)) {
	case 0:
	case 1:
		r = thing_new(of, 1);
		if (registry_add_object(registry, any_container(w), address, r) == 0)
			r = NULL;
		break;
	case 2:
		r = thing_new(of, 1);
		if (registry_replace_object(registry, any_container(w), address, r) == 0)
			r = NULL;
		break;
	case 3:
		r = registry_lookup_object(registry, any_container(w), of, address);
		break;
	case 4:
		r = registry_find_object(registry, any_container(w), of, address);
		if (r && any(w, 2))
			registry_delete_resource(registry, address, r);
		break;
	case 5: /* and into another container */
		r = registry_take_object(registry, of, address);
		if (r && any(w, 2) &&
		    registry_add_object(registry, any_container(w), address, r) == 0)
			r = NULL;
		break;
	case 6:
		registry_delete_object(registry, any_container(w), of, address);
		break;
	case 7:
	case 8:
		look_up_or_create(w);
		break;
	case 9:
		look_up_many(w);
		break;
	case 10:
		own(w);
		break;
	case 11:
		step(w);
		break;
	case 12:
		if (w->turn % 64 == 0)
			registry_cleanup(registry, any_container(w));
		if (w->turn % 4096 == 0)
			registry_clear(registry);
		break;
	default:
		if (w->turn % 64 == 1)
			registry_walk(registry, see, NULL);
		before = thing_new(of, 1);
		if (registry_add(registry, "shared", "one", before) != 0)
			r = before;
	}
	resource_release(r);
}

static void *work(void *cookie)
{
	struct worker *w = cookie;

	step_container_begin(&w->step, registry, w->turn);
	while (!is_over) {
		act(w);
		w->turn++;
	}
	for (int i = 0; i < KEPT; i++)
		resource_release(w->deleter[i]);
	step_container_end(&w->step);
	done += w->turn;
	return NULL;
}

static void has_one_reference(void *cookie, const struct registry_entry *entry)
{
	/* the registry's, and the walk's */
	*(size_t *)cookie += entry->resource->references == 2;
}

START_TEST(everything_at_once)
{
	static struct worker worker[THREADS];
	struct timespec length = {.tv_sec = seconds};
	size_t left, exact = 0;

	for (unsigned int i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){.random = i + 1, .turn = i};
		ck_assert_int_eq(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
	}
	while (nanosleep(&length, &length) != 0 && errno == EINTR)
		;
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(worker[i].thread, NULL);

	printf("%ld calls\n", (long)done);
	ck_assert_int_gt(done, 0);
	ck_assert_int_eq(created_at_once, 0);
	ck_assert_int_eq(wrong, 0);
	left = registry_count(registry, NULL);
	ck_assert_int_eq(alive, (int)left);
	ck_assert_uint_eq(registry_walk(registry, has_one_reference, &exact), left);
	ck_assert_uint_eq(exact, left);
	ck_assert_uint_eq(registry_clear(registry), left);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tests = tcase_create("registry soak");

	if (argc > 1)
		seconds = atoi(argv[1]);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, seconds * 2 + 60);
	tcase_add_test(tests, everything_at_once);
	return suite_run("registry soak", tests);
}
