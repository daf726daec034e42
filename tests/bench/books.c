/*
 * What Spillway's own books cost, as "MEASURE NS" lines: a passage of the gate, and looking up, making and
 * deleting a resource when the registry holds 1 thousand, 64 thousand and 1 million.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/gate.h"
#include "core/registry/object.h"
#include "core/registry/registry.h"

enum { ROUNDS = 21, PER_ROUND = 20000, STEP = 512 };

static struct registry *registry;
static uint64_t live;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Addresses as a driver hands them out, visited in no order. */
static uint64_t some_object(uint64_t i)
{
	return (i * 0x9e3779b97f4a7c15u >> 20) % live * STEP + STEP;
}

static void pass_gate(uint64_t i)
{
	(void)i;
	gate_enter();
	__asm__ volatile("" ::: "memory");
	gate_leave();
}

static void look_up(uint64_t i)
{
	struct resource *r =
	    registry_lookup_object(registry, NULL, &object_type_event, some_object(i));

	if (!r)
		abort();
	resource_release(r);
}

static void make_and_delete(uint64_t i)
{
	const void *object = (void *)((live + 1 + i) * STEP);

	if (object_track(registry, NULL, &object_type_event, object) != 0)
		abort();
	registry_delete_object(registry, NULL, &object_type_event, (uintptr_t)object);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median over rounds: one preempted round does not count. */
static void measure(const char *name, void (*operation)(uint64_t i))
{
	double rounds[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		double start = now_ns();

		for (uint64_t i = 0; i < PER_ROUND; i++)
			operation(i);
		rounds[round] = (now_ns() - start) / PER_ROUND;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), ascending);
	printf("%s %.2f\n", name, rounds[ROUNDS / 2]);
}

int main(void)
{
	static const struct {
		uint64_t resources;
		const char *look_up, *make;
	} sizes[] = {{1000, "lookup_1k", "create_delete_1k"},
	             {64000, "lookup_64k", "create_delete_64k"},
	             {1000000, "lookup_1M", "create_delete_1M"}};

	registry = registry_create("bench", 1, 0);
	if (!registry)
		return 1;
	gate_start();
	measure("gate_passage", pass_gate);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		while (live < sizes[s].resources) {
			live++;
			if (object_track(registry, NULL, &object_type_event,
			                 (void *)(live * STEP)) != 0)
				return 1;
		}
		measure(sizes[s].look_up, look_up);
		measure(sizes[s].make, make_and_delete);
	}
	registry_destroy(registry);
	return 0;
}
