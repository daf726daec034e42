/* SPDX-License-Identifier: MIT */
/*
 * Tests of actions on launches, allocations and steps. They are called around the driver, with
 * their subject, and may refuse.
 */
#include <string.h>

#include "core/job/pace.h"
#include "core/job/module.h"
#include "core/budget/growth.c" /* growth_is_due(), too */
#include "core/memory/alloc/allocate.h"
#include "core/base/clock.h"
#include "tests/unit/tracking.h"

#define TRUE(condition) CHECK(condition, "line %d: not so: %s", __LINE__, #condition)

static struct {
	CUresult answer; /* of what comes before */
	int before, after;
	struct job_launch launch; /* as it was afterwards */
	struct vmem_act act;
	size_t size;
} seen;

static int before(void *cookie, void *subject)
{
	(void)subject;
	TRUE(cookie == &seen);
	seen.before++;
	return seen.answer;
}

static int after_launch(void *cookie, void *subject)
{
	(void)cookie;
	seen.launch = *(struct job_launch *)subject;
	seen.after++;
	return CUDA_ERROR_UNKNOWN; /* which changes nothing any more */
}

static int after_alloc(void *cookie, void *subject)
{
	(void)cookie;
	seen.act = *(struct vmem_act *)subject;
	seen.size = seen.act.request->size;
	seen.after++;
	return CUDA_ERROR_UNKNOWN;
}

static void act(enum action_group group, int (*run)(void *cookie, void *subject))
{
	TRUE(action_add(group, &(struct action){3, "test", run, &seen}) == 0);
}

static uint64_t launches(void)
{
	return counters_get(job_devices()->device[0].statistics, launches);
}

static unsigned int calls(enum entry entry)
{
	return atomic_load(&giver->row[entry].calls);
}

static CUresult launch(void)
{
	return CALL(cuLaunchKernel, {0, 77}, {1, 2}, {2, 3}, {3, 1}, {4, 32}, {5, 1}, {6, 1},
	            {7, 0}, {8, 5});
}

static void check_launches(void)
{
	uint64_t counted = launches();
	unsigned int made = calls(ENTRY_cuLaunchKernel);

	memset(&seen, 0, sizeof(seen));
	TRUE(!job_launch_has_actions());
	TRUE(launch() == CUDA_SUCCESS && seen.before == 0 && launches() == ++counted);
	TRUE(calls(ENTRY_cuLaunchKernel) == ++made);
	act(ACTION_PRE_LAUNCH, before);
	act(ACTION_POST_LAUNCH, after_launch);
	TRUE(launch() == CUDA_SUCCESS && seen.before == 1 && seen.after == 1);
	TRUE(calls(ENTRY_cuLaunchKernel) == ++made && launches() == ++counted);
	TRUE(seen.launch.kind == LAUNCH_KERNEL && seen.launch.function == 77 &&
	     seen.launch.threads == (uint64_t)2 * 3 * 32 && WORD(seen.launch.stream) == 5 &&
	     seen.launch.device == &job_devices()->device[0] && seen.launch.result == CUDA_SUCCESS);
	/* Refused: the driver is not asked, and what was begun is ended. */
	seen.answer = CUDA_ERROR_NOT_PERMITTED;
	TRUE(launch() == CUDA_ERROR_NOT_PERMITTED && calls(ENTRY_cuLaunchKernel) == made);
	TRUE(seen.after == 2 && seen.launch.result == CUDA_ERROR_NOT_PERMITTED);
	counted++;
	TRUE(launches() == counted);
	seen.answer = CUDA_SUCCESS;
	atomic_store(&giver->row[ENTRY_cuLaunchKernel].answer, CUDA_ERROR_INVALID_VALUE);
	TRUE(launch() == CUDA_ERROR_INVALID_VALUE &&
	     seen.launch.result == CUDA_ERROR_INVALID_VALUE);
	atomic_store(&giver->row[ENTRY_cuLaunchKernel].answer, 0);
	counted++;
	TRUE(CALL(cuGraphLaunch, {0, 78}, {1, 5}) == CUDA_SUCCESS);
	TRUE(seen.launch.kind == LAUNCH_GRAPH && seen.launch.function == 78 &&
	     launches() == counted);

	/* Paced: counted once, in the first phase; and as before when it is over. */
	TRUE(job_launches_hold(HELD_BY_SHARE, true) && job_launches_hold(HELD_BY_SHARE, true));
	TRUE(action_find(ACTION_PRE_LAUNCH, ACTION_STATISTICS, "statistics", NULL));
	TRUE(action_find(ACTION_PRE_LAUNCH, ACTION_RESOURCES, "pacing", NULL));
	TRUE(launch() == CUDA_SUCCESS && launches() == ++counted);
	action_remove(ACTION_PRE_LAUNCH, 3, "test");
	TRUE(launch() == CUDA_SUCCESS && launches() == ++counted);
	TRUE(job_launch_has_actions() && job_launches_hold(HELD_BY_SHARE, false) &&
	     job_launches_hold(HELD_BY_SHARE, false));
	TRUE(!job_launch_has_actions() && launch() == CUDA_SUCCESS && launches() == ++counted);
	TRUE(action_find(ACTION_POST_LAUNCH, ACTION_RESOURCES, "pacing", NULL));
	action_remove(ACTION_POST_LAUNCH, 3, "test");
}

enum { LAUNCHERS = 3 * COUNTERS_PLACES, LAUNCHES_EACH = 2000 };

static void *launch_often(void *together)
{
	pthread_barrier_wait(together);
	for (int i = 0; i < LAUNCHES_EACH; i++)
		launch();
	return NULL;
}

/* None is lost among threads with places of their own, those without, and those that come after. */
static void check_launches_of_threads(void)
{
	uint64_t counted = launches();
	pthread_barrier_t together;
	pthread_t thread[LAUNCHERS];

	pthread_barrier_init(&together, NULL, LAUNCHERS);
	for (int round = 1; round <= 2; round++) {
		for (int i = 0; i < LAUNCHERS; i++)
			TRUE(pthread_create(&thread[i], NULL, launch_often, &together) == 0);
		for (int i = 0; i < LAUNCHERS; i++)
			pthread_join(thread[i], NULL);
		TRUE(launches() == counted + (uint64_t)round * LAUNCHERS * LAUNCHES_EACH);
	}
	pthread_barrier_destroy(&together);
}

static void check_allocations(void)
{
	CUdeviceptr address = 1;
	size_t held = books("allocation");
	unsigned int made = calls(ENTRY_cuMemAlloc_v2);

	memset(&seen, 0, sizeof(seen));
	act(ACTION_PRE_ALLOC, before);
	act(ACTION_POST_ALLOC, after_alloc);
	seen.answer = CUDA_ERROR_OUT_OF_MEMORY;
	TRUE(CALL(cuMemAlloc_v2, {0, WORD(&address)}, {1, 4096}) == CUDA_ERROR_OUT_OF_MEMORY);
	TRUE(address == 1 && calls(ENTRY_cuMemAlloc_v2) == made && books("allocation") == held);
	TRUE(seen.before == 1 && seen.after == 1 && seen.size == 4096 &&
	     seen.act.result == CUDA_ERROR_OUT_OF_MEMORY && !seen.act.address);
	seen.answer = CUDA_SUCCESS;
	TRUE(CALL(cuMemAlloc_v2, {0, WORD(&address)}, {1, 8192}) == CUDA_SUCCESS);
	TRUE(seen.after == 2 && seen.size == 8192 && seen.act.result == CUDA_SUCCESS &&
	     seen.act.address == address && books("allocation") == held + 1);
	CALL(cuMemFree_v2, {0, address});
	TRUE(CALL(cuMemAllocPitch_v2, {0, WORD(&address)}, {2, 512}, {3, 8}, {4, 4}) ==
	     CUDA_SUCCESS);
	TRUE(seen.before == 3 && seen.size == 4096 && seen.act.address == address);
	CALL(cuMemFree_v2, {0, address});
	TRUE(CALL(cuMemAllocAsync, {0, WORD(&address)}, {1, 16384}, {2, 0}) == CUDA_SUCCESS);
	TRUE(seen.before == 4 && seen.after == 4 && seen.size == 16384 &&
	     seen.act.address == address);
	CALL(cuMemFreeAsync, {0, address}, {1, 0});
	action_remove(ACTION_PRE_ALLOC, 3, "test");
	action_remove(ACTION_POST_ALLOC, 3, "test");
	TRUE(!actions_are_any(ACTION_PRE_ALLOC) && !actions_are_any(ACTION_POST_ALLOC));
	TRUE(books("allocation") == held);
}

/* The end of a step is when growth is judged. */
static void check_steps(void)
{
	struct device *device = &job_devices()->device[0];
	struct config_gpu before_it = terms_of(device).settings, grows = before_it;
	uint64_t now = clock_now();

	grows.memory = (uint64_t)64 << 20;
	grows.memory_max = (uint64_t)128 << 20;
	device_apply(device, &grows);
	TRUE(growth_is_due(device, now) && growth_is_due(device, now));
	TRUE(actions_run(ACTION_STEP_END, device) == CUDA_SUCCESS);
	TRUE(growth_is_due(device, now));
	TRUE(!growth_is_due(device, now));
	device_apply(device, &before_it);
}

/* Returns whether the build has the module. */
static bool has_module(const char *name)
{
	const struct module *const *at = modules;

	while (*at && strcmp((*at)->name, name) != 0)
		at++;
	return *at != NULL;
}

static void check_one_record(void *cookie, const struct registry_entry *entry)
{
	char text[128];

	if (strcmp(entry->resource->type->name, "step_statistics") != 0)
		return;
	++*(int *)cookie;
	TRUE(strcmp(entry->container, "step9") == 0 && strcmp(entry->name, "record") == 0);
	entry->resource->type->describe(entry->resource, text, sizeof(text));
	TRUE(strncmp(text, "3 launches, 7 bytes moved, 0 ns idle, in ", 41) == 0);
}

/* A step has a container, with its record; what was made within it goes with its end. */
static void check_records(void)
{
	struct device *device = &job_devices()->device[0];
	int records = 0;

	atomic_store(&device->statistics->steps, 7);
	actions_run(ACTION_STEP_END, device);
	actions_run(ACTION_STEP_BEGIN, device);
	modules_call(list, device);
	TRUE(books("step_statistics") == 1);
	atomic_store(&device->statistics->steps, 8);
	actions_run(ACTION_STEP_END, device);
	actions_run(ACTION_STEP_BEGIN, device);
	TRUE(books("step_statistics") == 0);
	statistics_add(&device->statistics->launches, 3);
	statistics_add(&device->statistics->demoted_bytes, 7);
	registry_walk(device->registry, check_one_record, &records);
	TRUE(records == 0); /* made for who asks */
	modules_call(list, device);
	registry_walk(device->registry, check_one_record, &records);
	TRUE(records == 1);
	TRUE(registry_cleanup(device->registry, "step9") == 1);
}

/* New settings come to devices and pacers by the group. */
static void check_settings(void)
{
	TRUE(action_find(ACTION_CONFIG_CHANGED, ACTION_RESOURCES, "devices", NULL));
	TRUE(action_find(ACTION_CONFIG_CHANGED, ACTION_RESOURCES, "pacing", NULL));
}

void check_actions(void)
{
	check_launches();
	check_launches_of_threads();
	check_allocations();
	check_steps();
	if (has_module("steps"))
		check_records();
	check_settings();
}
