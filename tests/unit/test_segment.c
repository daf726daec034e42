/* SPDX-License-Identifier: MIT */
/* The segment: creating, joining, dying, leaving, removing. */
#include "tests/unit/ledger.h"
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

static struct segment_view view;
static const struct segment_device gpu = {.uuid = "GPU-1", .name = "Soft GPU", .memory = 1 << 30};

/*
 * The dead drain for longer than a busy machine may keep a test, until it says that their time is
 * over.
 */
static void setup(void)
{
	state_directory_make();
	segment_drain_ns = 60000000000;
}

static void drained(void)
{
	segment_drain_ns = 0;
}

static void teardown(void)
{
	state_directory_remove();
}

static struct segment *join_run(const char *labels, const char *run)
{
	struct segment *segment = NULL;
	char message[512] = "";
	int error = segment_join("job", labels, run, &segment, message, sizeof message);
	ck_assert_msg(error == 0, "%d: %s", error, message);
	return segment;
}

static struct segment *join(const char *labels)
{
	return join_run(labels, NULL);
}

static void look(void)
{
	char message[512] = "";
	int error = segment_read("job", &view, message, sizeof message);
	ck_assert_msg(error == 0, "%d: %s", error, message);
}

static const char *path_of(const char *job)
{
	static char path[512];
	ck_assert_int_eq(directory_segment_path(job, path, sizeof path), 0);
	return path;
}

static void patch(const char *path, off_t at, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
	close(fd);
}

/* As if the job had last said so long ago that it lives. */
static void seen(int64_t ns_ago)
{
	int64_t then = (int64_t)clock_now() - ns_ago;
	patch(path_of("job"), offsetof(struct segment_header, polled_ns), &then, sizeof then);
}

/* The work of children. */
static void child_join(void *unused)
{
	struct segment *segment;
	(void)unused;
	if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0 ||
	    segment_device(segment, &gpu) != 0)
		_exit(1);
	statistics_add(&segment_own(segment, 0).counters->launches, 5);
	if (segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, UINT64_MAX) != 0)
		_exit(1);
}

START_TEST(a_process_is_seen)
{
	struct segment *segment = join("team=a");
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	statistics_add(&segment_own(segment, 0).counters->spills, 3);
	segment_tell(segment, 77, 0, "line 3: bad");
	look();
	ck_assert_str_eq(view.job, "job");
	ck_assert_str_eq(view.labels, "team=a");
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_int_eq(view.process[0].state, SLOT_LIVE);
	ck_assert_int_eq(view.process[0].pid, getpid());
	ck_assert_ptr_nonnull(strstr(view.process[0].command, "test_segment"));
	ck_assert_str_eq(view.process[0].complaint, "line 3: bad");
	ck_assert_uint_eq(view.process[0].override_hash, 77);
	ck_assert_int_eq(view.device_count, 1);
	ck_assert_str_eq(view.device[0].name, "Soft GPU");
	ck_assert_uint_eq(view.job_total[0].spills, 3);
	ck_assert_uint_eq(view.ended_ns, 0);
	ck_assert_uint_ne(view.created_ns, 0);

	segment_tell(segment, 77, 0, "");
	look();
	ck_assert_str_eq(view.process[0].complaint, "");
	segment_leave(segment);
	look();
	ck_assert_int_eq(view.process_count, 0);
	ck_assert_uint_ne(view.ended_ns, 0);
	ck_assert_uint_eq(view.job_total[0].spills, 3);
}
END_TEST

START_TEST(threads_and_contexts_are_known_while_it_lives)
{
	struct segment *segment = join(NULL);

	look();
	ck_assert_int_eq(view.process[0].threads, -1);
	ck_assert_int_eq(view.process[0].contexts, -1);
	segment_count(segment, 7, 0);
	look();
	ck_assert_int_eq(view.process[0].threads, 7);
	ck_assert_int_eq(view.process[0].contexts, 0);
	segment_count(segment, -1, 2);
	look();
	ck_assert_int_eq(view.process[0].threads, -1);
	ck_assert_int_eq(view.process[0].contexts, 2);
	segment_leave(segment);
	/* the next one in the process slot begins anew */
	segment = join(NULL);
	look();
	ck_assert_int_eq(view.process[0].contexts, -1);
	segment_leave(segment);
	pid_t child = fork();
	if (child == 0) {
		segment_count(join(NULL), 3, 1);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	look();
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_int_eq(view.process[0].state, SLOT_DRAINING);
	ck_assert_int_eq(view.process[0].threads, -1);
	ck_assert_int_eq(view.process[0].contexts, -1);
}
END_TEST

START_TEST(a_new_run_begins_at_zero)
{
	struct segment *segment = join("first");
	segment_device(segment, &gpu);
	statistics_add(&segment_own(segment, 0).counters->spills, 3);
	segment_leave(segment);
	segment = join("second");
	segment_device(segment, &gpu);
	look();
	ck_assert_uint_eq(view.job_total[0].spills, 0);
	ck_assert_str_eq(view.labels, "second");
	segment_leave(segment);
}
END_TEST

/* One after the other; the second is killed. */
START_TEST(a_run_that_is_named_goes_on)
{
	static char long_name[200];
	struct segment *segment = join_run("first", "7-1");
	segment_device(segment, &gpu);
	statistics_add(&segment_own(segment, 0).counters->spills, 3);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 50, 50), 0);
	segment_leave(segment);
	pid_t child = fork();
	if (child == 0) {
		segment = join_run("second", "7-1");
		statistics_add(&segment_own(segment, 0).counters->spills, 2);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	segment = join_run("third", "7-1");
	look();
	ck_assert_uint_eq(view.job_total[0].spills, 5);
	ck_assert_uint_eq(view.job_total[0].device_peak, 50);
	ck_assert_str_eq(view.labels, "first");
	/* while someone lives, it is one run whatever the others say */
	segment_leave(join_run("other", "7-2"));
	segment_leave(segment);
	segment_leave(join_run("third", "7-1"));
	look();
	ck_assert_uint_eq(view.job_total[0].spills, 5);
	/* another run, one without a name, and one after that */
	const char *runs[] = {"7-2", NULL, "", "7-2", long_name};
	memset(long_name, 'x', sizeof long_name - 1);
	for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
		segment = join_run(NULL, runs[i]);
		segment_device(segment, &gpu);
		look();
		ck_assert_uint_eq(view.job_total[0].spills, 0);
		statistics_add(&segment_own(segment, 0).counters->spills, 1);
		segment_leave(segment);
	}
	segment_leave(join_run(NULL, long_name));
	look();
	ck_assert_uint_eq(view.job_total[0].spills, 1);
}
END_TEST

START_TEST(a_second_process_goes_on_with_the_run)
{
	struct segment *segment = join("first");
	segment_device(segment, &gpu);
	pid_t child = child_start(child_join, NULL);
	struct segment *third = join("third");
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	look();
	ck_assert_int_eq(view.process_count, 3);
	ck_assert_str_eq(view.labels, "first");
	ck_assert_uint_eq(view.job_total[0].launches, 5);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 100);
	segment_leave(third);
	child_kill(child);
	segment_leave(segment);
}
END_TEST

START_TEST(sums_outlive_processes_and_settings_are_the_living_ones)
{
	struct segment *a = join(NULL), *b = join(NULL);
	segment_device(a, &gpu);
	ledger_says(a, &(const struct facts){.generation = 1, .limit = 500});
	ledger_says(b, &(const struct facts){.generation = 1, .limit = 300});
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 10, 500), 0);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, 20, 500), 0);
	statistics_set(&segment_own(a, 0).counters->launches, 7);
	statistics_set(&segment_own(b, 0).counters->launches, 1);
	for (int i = 0; i < COUNTERS_PLACES; i++) {
		statistics_count(&segment_own(a, 0).counters->place[i].launches);
		statistics_count(&segment_own(a, 0).counters->place[i].graph_launches);
	}
	look();
	ck_assert_uint_eq(view.job_total[0].device_used, 30);
	ck_assert_uint_eq(view.job_total[0].launches, 8 + COUNTERS_PLACES);
	segment_leave(a);
	look();
	ck_assert_uint_eq(view.job_total[0].device_used, 20);
	ck_assert_uint_eq(view.job_total[0].launches, 8 + COUNTERS_PLACES);
	ck_assert_uint_eq(view.job_total[0].graph_launches, COUNTERS_PLACES);
	a = join(NULL);
	ck_assert_uint_eq(counters_get(segment_own(a, 0).counters, launches), 0);
	segment_leave(a);
	ck_assert_uint_eq(view.job_total[0].limit_set, 300);
	segment_leave(b);
	look();
	ck_assert_uint_eq(view.job_total[0].device_used, 0);
	ck_assert_uint_eq(view.job_total[0].limit_set, 300);
}
END_TEST

static void child_joins_and_is_paused(void *unused)
{
	struct segment *segment;

	(void)unused;
	if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0 ||
	    segment_device(segment, &gpu) != 0)
		_exit(1);
	ledger_says(segment, &(const struct facts){.generation = 2, .limit = 500, .share = 0});
}

/* The generations of settings begin anew with each life of a job, so that the higher one of the
 * killed process is not the newer one. */
START_TEST(settings_end_with_the_life_of_the_job)
{
	struct segment *segment;

	child_kill(child_start(child_joins_and_is_paused, NULL));
	segment = join(NULL);
	segment_device(segment, &gpu);
	ledger_says(segment, &(const struct facts){.generation = 1, .limit = 300, .share = 7});
	look();
	ck_assert_uint_eq(view.job_total[0].share_set, 7);
	drained();
	segment_leave(segment);
	look();
	ck_assert_uint_eq(view.job_total[0].limit_set, 300);
	ck_assert_uint_eq(view.job_total[0].share_set, 7);
}
END_TEST

START_TEST(the_dead_drain_and_then_go)
{
	struct segment *segment = join(NULL);
	segment_device(segment, &gpu);
	pid_t child = child_start(child_join, NULL);
	look();
	ck_assert_int_eq(view.process[1].state, SLOT_LIVE);
	child_kill(child);
	segment_poll(segment);
	look();
	ck_assert_int_eq(view.process_count, 2);
	ck_assert_int_eq(view.process[1].state, SLOT_DRAINING);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 100);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, 100), -ENOSPC);
	drained();
	look(); /* nobody retired it yet, but its time is over */
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_uint_eq(view.job_total[0].launches, 5);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, 100), 0);
	look();
	ck_assert_uint_eq(view.job_total[0].launches, 5);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 100);
	segment_leave(segment);
}
END_TEST

static void child_joins_and_paces(void *unused)
{
	struct segment *segment;
	int own;

	(void)unused;
	if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0)
		_exit(1);
	struct lanes *lanes = segment_lanes(segment, &own);
	atomic_store(&lanes->lane[own].seen_ns, 5);
	atomic_store(&lanes->lane[own].devices, 6);
	atomic_store(&lanes->lane[own].flying, 7);
	atomic_store(&lanes->lane[own].stuck, 2);
	atomic_store(&lanes->paid_until[1], 8);
}

START_TEST(a_lane_begins_at_zero)
{
	struct segment *segment = join(NULL);
	int own, other;
	struct lanes *lanes = segment_lanes(segment, &own);

	ck_assert_int_eq(own, 0);
	for (int i = 0; i < LANES_MAX; i++)
		ck_assert_uint_eq(lanes->lane[i].seen_ns, 0);
	atomic_store(&lanes->lane[own].seen_ns, 3);

	/*
	 * What the processes say is common; a killed one's lane is empty for whoever has its
	 * slot next.
	 */
	pid_t child = child_start(child_joins_and_paces, NULL);
	ck_assert_uint_eq(lanes->lane[1].flying, 7);
	ck_assert_uint_eq(lanes->paid_until[1], 8);
	child_kill(child);
	segment_poll(segment);
	drained();
	struct segment *next = join(NULL);
	ck_assert_ptr_eq(segment_lanes(segment, &other), lanes);
	segment_lanes(next, &other);
	ck_assert_int_eq(other, 1);
	ck_assert_uint_eq(lanes->lane[1].seen_ns, 0);
	ck_assert_uint_eq(lanes->lane[1].devices, 0);
	ck_assert_uint_eq(lanes->lane[1].flying, 0);
	ck_assert_uint_eq(lanes->lane[1].stuck, 0);
	ck_assert_uint_eq(lanes->lane[0].seen_ns, 3);
	ck_assert_uint_eq(lanes->paid_until[1], 8);
	segment_leave(next);

	/* Nobody lives: nothing of those who did is left. */
	segment_leave(segment);
	segment = join(NULL);
	lanes = segment_lanes(segment, &own);
	ck_assert_uint_eq(lanes->lane[own].seen_ns, 0);
	ck_assert_uint_eq(lanes->paid_until[1], 0);
	segment_leave(segment);
}
END_TEST

/* The memory of an earlier run is charged while it drains, and no part of the next run's peak. */
START_TEST(a_run_has_its_own_peak)
{
	child_kill(child_start(child_join, NULL));
	struct segment *segment = join(NULL);

	segment_device(segment, &gpu);
	segment_note_driver(segment, 0, 8);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 30, 500), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_HOST, 4, 500), 0);
	look();
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 130);
	ck_assert_uint_eq(view.job_total[0].device_peak, 30);
	ck_assert_uint_eq(view.job_total[0].host_peak, 4);
	ck_assert_uint_eq(view.job_total[0].driver_peak, 8);
	drained();
	segment_poll(segment);
	look();
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 30);
	ck_assert_uint_eq(view.job_total[0].device_peak, 30);
	/* A process of this run that is killed counts. */
	segment_drain_ns = 60000000000;
	child_kill(child_start(child_join, NULL));
	segment_poll(segment);
	look();
	ck_assert_uint_eq(view.job_total[0].device_peak, 130);
	segment_leave(segment);
}
END_TEST

START_TEST(a_killed_job_is_over_for_those_who_look)
{
	pid_t child = child_start(child_join, NULL);
	child_kill(child);
	look();
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_int_eq(view.process[0].state, SLOT_DRAINING);
	seen((int64_t)(SEGMENT_SILENT_NS + segment_drain_ns));
	look();
	ck_assert_int_eq(view.process_count, 0);
	ck_assert_uint_ne(view.ended_ns, 0);
	ck_assert_uint_eq(view.job_total[0].launches, 5);
}
END_TEST

/* Who died long ago drained long ago, though nobody noticed: a rerun, a removal. */
START_TEST(a_death_long_ago_is_over_at_once)
{
	child_kill(child_start(child_join, NULL));
	seen((int64_t)segment_drain_ns / 2); /* not that long */
	struct segment *segment = join(NULL);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	segment_leave(segment);
	unlink(path_of("job"));

	child_kill(child_start(child_join, NULL));
	seen((int64_t)(SEGMENT_SILENT_NS + segment_drain_ns));
	segment = join(NULL);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 0);
	segment_leave(segment);

	child_kill(child_start(child_join, NULL));
	ck_assert_int_eq(segment_remove("job"), -EBUSY);
	unlink(path_of("job"));
	child_kill(child_start(child_join, NULL));
	look();
	ck_assert_int_eq(view.process_count, 1);
	seen((int64_t)(SEGMENT_SILENT_NS + segment_drain_ns));
	look(); /* who looks and who removes have one bound: SEGMENT_GONE_NS */
	ck_assert_int_eq(view.process_count, 0);
	ck_assert_int_eq(segment_remove("job"), 0);
}
END_TEST

/* Another clock wrote the file: no death drains for longer than it ever should. */
START_TEST(a_death_in_the_future_drains_once)
{
	child_kill(child_start(child_join, NULL));
	seen(-(int64_t)SEGMENT_POLL_NS);
	struct segment *segment = join(NULL);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	ck_assert_uint_le(slot_of(segment->file, 0)->drained_ns, clock_now() + segment_drain_ns);
	drained();
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, 100), 0);
	segment_leave(segment);
}
END_TEST

static void child_exit(void *unused)
{
	struct segment *exiting;
	(void)unused;
	if (segment_join("job", NULL, NULL, &exiting, NULL, 0) != 0 ||
	    segment_reserve(exiting, 0, SEGMENT_ON_DEVICE, 100, UINT64_MAX) != 0)
		_exit(1);
	segment_exiting(exiting);
}

/*
 * By the clock in hand: the drain is whole when the death is noticed, however long the process took
 * to exit.
 */
START_TEST(a_drain_begins_when_the_death_is_noticed)
{
	static struct segment_header header;
	static struct segment_slot killed, exited;
	const uint64_t began = 1000 * SEGMENT_POLL_NS, lately = began + 40 * SEGMENT_POLL_NS;

	segment_drain_ns = SEGMENT_DRAIN_NS;
	atomic_store(&exited.exiting_ns, began); /* its destructors take 40 s */
	atomic_store(&header.polled_ns, lately);
	for (uint64_t after = 0; after <= SEGMENT_SILENT_NS; after += SEGMENT_POLL_NS / 4) {
		ck_assert_uint_eq(slot_drain_left(&header, &exited, lately + after),
		                  SEGMENT_EXIT_DRAIN_NS);
		ck_assert_uint_eq(slot_drain_left(&header, &killed, lately + after),
		                  SEGMENT_DRAIN_NS);
	}

	/* Nobody was there to notice: they died while the job was last heard of, at the latest. */
	const uint64_t silent = lately + SEGMENT_SILENT_NS;
	ck_assert_uint_eq(slot_drain_left(&header, &exited, silent + SEGMENT_EXIT_DRAIN_NS - 1), 1);
	ck_assert_uint_eq(slot_drain_left(&header, &exited, silent + SEGMENT_EXIT_DRAIN_NS), 0);
	ck_assert_uint_eq(slot_drain_left(&header, &killed, silent + SEGMENT_DRAIN_NS - 1), 1);
	ck_assert_uint_eq(slot_drain_left(&header, &killed, UINT64_MAX), 0);

	/* Another clock wrote the file, or something else did. */
	ck_assert_uint_eq(slot_drain_left(&header, &exited, began), SEGMENT_EXIT_DRAIN_NS);
	atomic_store(&header.polled_ns, UINT64_MAX);
	ck_assert_uint_eq(slot_drain_left(&header, &killed, lately), SEGMENT_DRAIN_NS);
}
END_TEST

/* How long the slot of the process that died last still drains. */
static uint64_t drains_for(const struct segment *segment)
{
	ck_assert_int_eq(slot_state(&segment->file->header, 1), SLOT_DRAINING);
	return slot_of(segment->file, 1)->drained_ns - clock_now();
}

START_TEST(a_normal_exit_drains_quickly)
{
	struct segment *segment = join(NULL);
	segment_device(segment, &gpu);
	pid_t child = child_start(child_exit, NULL);
	/* nothing changes while it lives, as long as its exit may take */
	pause_ms(SEGMENT_EXIT_DRAIN_NS / 1000000 + 10);
	segment_poll(segment);
	look();
	ck_assert_int_eq(view.process[1].state, SLOT_LIVE);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	child_kill(child);
	uint64_t noticed = clock_now();
	segment_poll(segment);
	ck_assert_uint_ge(slot_of(segment->file, 1)->drained_ns, noticed + SEGMENT_EXIT_DRAIN_NS);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	while (segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, 100) != 0)
		pause_ms(10);
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 100);

	/* the next in its slot, which is killed, drains as such */
	child_kill(child_start(child_join, NULL));
	segment_poll(segment);
	ck_assert_uint_gt(drains_for(segment), segment_drain_ns / 2);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, 100), -ENOSPC);
	segment_leave(segment);
}
END_TEST

static void child_hold_lock(void *unused)
{
	struct segment *segment;
	(void)unused;
	if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0)
		_exit(1);
	/* between slot and total */
	segment_lock(segment->file);
	atomic_fetch_add(&own_books(segment, 0)->ledger.charged[0], 1000);
}

START_TEST(killed_inside_the_lock)
{
	struct segment *segment = join(NULL);
	segment_device(segment, &gpu);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, 5000), 0);
	child_kill(child_start(child_hold_lock, NULL));
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, 1010), -ENOSPC);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 1010);
	drained();
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, 1010), 0);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 20);
	segment_leave(segment);
}
END_TEST

static void child_retire_half(void *committed)
{
	struct segment *segment;
	if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0)
		_exit(1);
	/* as slots_retire does, cut off behind the commit or before it */
	struct segment_header *header = &segment->file->header;
	segment_lock(segment->file);
	segment_change_begin(header);
	memcpy(header->ended_next, header->ended, sizeof header->ended);
	statistics_add(&header->ended_next[0].counters.launches, 9);
	if (*(bool *)committed)
		atomic_store(&header->retiring, (uint32_t)segment->number + 1);
}

START_TEST(killed_while_retiring)
{
	bool committed = _i;
	struct segment *segment = join(NULL);
	segment_device(segment, &gpu);
	child_kill(child_start(child_retire_half, &committed));
	look(); /* the reader repairs its copy */
	ck_assert_int_eq(view.process_count, committed ? 1 : 2);
	ck_assert_uint_eq(view.job_total[0].launches, committed ? 9 : 0);
	segment_poll(segment);
	look();
	ck_assert_uint_eq(view.job_total[0].launches, committed ? 9 : 0);
	ck_assert_uint_eq(segment->file->header.sequence % 2, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(a_stopped_holder_delays_for_a_while_and_loses_nothing)
{
	struct segment *segment = join(NULL);
	segment_device(segment, &gpu);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, 5000), 0);
	pid_t child = child_start(child_hold_lock, NULL);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, 5000), -EBUSY);
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 10); /* owed */
	look();
	child_kill(child);
	segment_poll(segment);
	drained();
	segment_poll(segment);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 50, 50), 0);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 50);
	segment_leave(segment);
}
END_TEST

START_TEST(all_create_one)
{
	enum { CHILDREN = 12 };
	pid_t child[CHILDREN];
	int gate[2];
	ck_assert_int_eq(pipe(gate), 0);
	for (int i = 0; i < CHILDREN; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			char byte;
			close(gate[1]);
			if (read(gate[0], &byte, 1) != 0)
				_exit(1);
			child_join(NULL);
			for (;;)
				pause();
		}
	}
	close(gate[0]);
	close(gate[1]); /* all at once */
	do
		pause_ms(10);
	while (segment_read("job", &view, NULL, 0) != 0 || view.process_count < CHILDREN ||
	       view.charged[0][0] < (uint64_t)CHILDREN * 100);
	ck_assert_int_eq(view.process_count, CHILDREN);
	ck_assert_uint_eq(view.charged[0][0], CHILDREN * 100);
	ck_assert_int_eq(view.device_count, 1);
	for (int i = 0; i < CHILDREN; i++)
		child_kill(child[i]);
}
END_TEST

/* Children are killed at any point of join, reserve, leave; the next must always get in. */
START_TEST(killed_anywhere)
{
	srand(_i + 1);
	segment_drain_ns = 50000000;
	for (int round = 0; round < 60; round++) {
		pid_t child = fork();
		if (child == 0)
			for (;;) {
				struct segment *segment;
				if (segment_join("job", NULL, NULL, &segment, NULL, 0) != 0)
					_exit(1);
				segment_device(segment, &gpu);
				segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, 1000);
				segment_tell(segment, 0, 0, "x");
				segment_leave(segment);
				if (rand() % 4 == 0)
					segment_remove("job");
			}
		nanosleep(&(struct timespec){.tv_nsec = rand() % 3000000}, NULL);
		child_kill(child);
		if (segment_read("job", &view, NULL, 0) == 0)
			ck_assert_int_le(view.process_count, round + 1);
	}
	struct segment *segment = join(NULL);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	pause_ms(60);
	segment_poll(segment);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 0);
	look();
	ck_assert_int_eq(view.process_count, 1);
	segment_leave(segment);
}
END_TEST

static void expect_refused(const char *part)
{
	char message[512] = "", before[4096], after[4096];
	struct segment *segment = NULL;
	int fd = open(path_of("job"), O_RDONLY);
	ssize_t length = pread(fd, before, sizeof before, 0);

	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, message, sizeof message),
	                 -EPROTO);
	ck_assert_msg(strstr(message, part) && strstr(message, path_of("job")), "%s", message);
	ck_assert_ptr_null(segment);
	ck_assert_int_eq(pread(fd, after, sizeof after, 0), length);
	ck_assert_mem_eq(before, after, length);
	close(fd);
}

/* As a process of another Spillway has it. */
static int have_file(void)
{
	int fd = open(path_of("job"), O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(another_version_is_refused_and_left_alone)
{
	uint32_t version = 9;
	int had;
	segment_leave(join(NULL));
	patch(path_of("job"), offsetof(struct segment_header, version), &version, sizeof version);
	had = have_file();
	expect_refused("version 9, expected version 8");
	ck_assert_int_lt(segment_remove("job"), 0);
	close(had);
}
END_TEST

START_TEST(another_build_s_is_refused_and_left_alone)
{
	uint64_t size;
	struct stat found;
	int had;

	segment_leave(join(NULL));
	ck_assert_int_eq(stat(path_of("job"), &found), 0);
	ck_assert_int_eq(truncate(path_of("job"), found.st_size - 1), 0);
	expect_refused("damaged");
	ck_assert_int_eq(truncate(path_of("job"), found.st_size), 0);
	size = sizeof(struct segment_file) + 4096;
	patch(path_of("job"), offsetof(struct segment_header, size), &size, sizeof size);
	had = have_file();
	expect_refused("of version 8");
	ck_assert_int_lt(segment_remove("job"), 0);
	close(had);
}
END_TEST

START_TEST(what_is_no_segment_is_refused)
{
	segment_leave(join(NULL));
	ck_assert_int_eq(truncate(path_of("job"), 1000), 0);
	expect_refused("damaged");
	ck_assert_int_eq(truncate(path_of("job"), 0), 0);
	expect_refused("not a segment");
	patch(path_of("job"), 0, "hello", 5);
	expect_refused("not a segment");
	unlink(path_of("job"));
	ck_assert_int_eq(mkfifo(path_of("job"), 0600), 0);
	char message[512] = "";
	struct segment *segment = NULL;
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, message, sizeof message),
	                 -EPROTO);
	unlink(path_of("job"));
	ck_assert_int_eq(symlink("/etc/passwd", path_of("job")), 0);
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, message, sizeof message),
	                 -ELOOP);
}
END_TEST

START_TEST(the_segment_of_another_boot_is_replaced)
{
	child_kill(child_start(child_join, NULL));
	patch(path_of("job"), offsetof(struct segment_header, boot_id), "earlier", 8);
	look();
	ck_assert_int_eq(view.process_count, 0);
	struct segment *segment = join(NULL);
	look();
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_uint_eq(view.charged[0][0], 0);
	segment_leave(segment);
}
END_TEST

START_TEST(what_a_killed_creator_left_is_overwritten)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/.job.unfinished", state_directory);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_eq(write(fd, "SPILLSEG garbage", 16), 16);
	close(fd);
	segment_leave(join(NULL));
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_forked_child_does_not_keep_the_slot)
{
	int gate[2];
	struct segment *segment = join(NULL);
	ck_assert_int_eq(pipe(gate), 0);
	pid_t parent = fork();
	if (parent == 0) {
		struct segment *own;
		if (segment_join("job", NULL, NULL, &own, NULL, 0) != 0)
			_exit(1);
		pid_t loader = fork();
		if (loader == 0) {
			segment_abandon(own);
			for (;;)
				pause();
		}
		if (write(gate[1], &loader, sizeof loader) != sizeof loader)
			_exit(1);
		pause();
	}
	pid_t loader;
	ck_assert_int_eq(read(gate[0], &loader, sizeof loader), sizeof loader);
	look();
	ck_assert_int_eq(view.process_count, 2);
	ck_assert_int_eq(view.process[1].state, SLOT_LIVE);
	child_kill(parent);
	segment_poll(segment);
	look();
	ck_assert_int_eq(view.process[1].state, SLOT_DRAINING);
	kill(loader, SIGKILL);
	segment_leave(segment);
}
END_TEST

START_TEST(exec_ends_the_slot)
{
	struct segment *segment = join(NULL);
	pid_t child = fork();
	if (child == 0) {
		child_join(NULL);
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	do {
		pause_ms(10);
		segment_poll(segment);
		look();
	} while (view.process_count != 2 || view.process[1].state != SLOT_DRAINING);
	ck_assert_int_eq(kill(child, 0), 0);
	child_kill(child);
	segment_leave(segment);
}
END_TEST

/* Thread ids repeat in another pid namespace, and its pids mean nothing here. */
START_TEST(lives_and_dies_in_another_pid_namespace)
{
	struct segment *segment = join(NULL);
	int gate[2];
	pid_t inner = 0;
	ck_assert_int_eq(pipe(gate), 0);
	pid_t outer = fork();
	if (outer == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(77);
		inner = child_start(child_join, NULL);
		_exit(write(gate[1], &inner, sizeof inner) != sizeof inner);
	}
	int status;
	waitpid(outer, &status, 0);
	if (status == 0) {
		ck_assert_int_eq(read(gate[0], &inner, sizeof inner), sizeof inner);
		segment_poll(segment);
		look();
		ck_assert_int_eq(view.process[1].state, SLOT_LIVE);
		ck_assert_int_eq(view.process[1].pid, 1);
		kill(inner, SIGKILL);
		while (view.process[1].state == SLOT_LIVE) {
			pause_ms(1);
			segment_poll(segment);
			look();
		}
		ck_assert_int_eq(view.process[1].state, SLOT_DRAINING);
	} /* else it is not allowed here */
	segment_leave(segment);
}
END_TEST

START_TEST(no_signal_where_files_may_not_grow)
{
	struct rlimit limit, small = {.rlim_cur = 4096};
	struct segment *segment = NULL;
	char message[512] = "";
	getrlimit(RLIMIT_FSIZE, &limit);
	small.rlim_max = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	int error = segment_join("job", NULL, NULL, &segment, message, sizeof message);
	setrlimit(RLIMIT_FSIZE, &limit);
	ck_assert_int_eq(error, -EFBIG);
	ck_assert_ptr_nonnull(strstr(message, path_of("job")));
	segment_leave(join(NULL));
}
END_TEST

static void *join_and_end(void *segment)
{
	ck_assert_int_eq(segment_join("job", NULL, NULL, segment, NULL, 0), 0);
	return NULL;
}

START_TEST(the_slot_ends_with_its_thread)
{
	static struct segment *segment; /* segment_abandon() frees nothing */
	struct segment *watcher = join(NULL);
	pthread_t thread;
	ck_assert_int_eq(pthread_create(&thread, NULL, join_and_end, &segment), 0);
	pthread_join(thread, NULL);
	segment_poll(watcher);
	look();
	ck_assert_int_eq(view.process[1].state, SLOT_DRAINING);
	segment_leave(watcher);
	segment_abandon(segment);
}
END_TEST

/* As a join does that finds all slots taken. */
static void add_row(struct segment *segment)
{
	int fd = segment_reopen(segment);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(
	    segment_reserve_row(fd, segment->file->header.rows, segment->file->header.device_count),
	    0);
	close(fd);
	segment->file->header.rows++;
}

START_TEST(full)
{
	char message[512] = "";
	struct segment *segment = join(NULL), *more = NULL;
	while (segment->file->header.rows < SEGMENT_ROWS)
		add_row(segment);
	for (int i = 1; i < SEGMENT_SLOTS; i++) {
		slot_of(segment->file, i)->drained_ns = clock_now() + segment_drain_ns;
		segment->file->header.draining[i / SEGMENT_ROW] |= (uint64_t)1 << i % SEGMENT_ROW;
	}
	ck_assert_int_eq(segment_join("job", NULL, NULL, &more, message, sizeof message), -EUSERS);
	ck_assert_msg(strstr(message, "4096"), "%s", message);
	drained();
	segment_leave(join(NULL));

	struct segment_device device = {.name = "n"};
	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		snprintf(device.pci_bus_id, sizeof device.pci_bus_id, "0000:%02x:00.0", i);
		ck_assert_int_eq(segment_device(segment, &device), i);
	}
	ck_assert_int_eq(segment_device(segment, &gpu), -ENOSPC);
	ck_assert_ptr_nonnull(segment_own(segment, SEGMENT_DEVICES - 1).counters);
	segment_leave(segment);
}
END_TEST

START_TEST(removing)
{
	char path[512];
	ck_assert_int_eq(segment_remove("job"), -ENOENT);
	ck_assert_int_eq(segment_remove("../x"), -EINVAL);
	struct segment *segment = join(NULL);
	ck_assert_int_eq(directory_override_path("job", path, sizeof path), 0);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(segment_remove("job"), -EBUSY);
	segment_leave(segment);
	ck_assert_int_eq(segment_remove("job"), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), -ENOENT);

	child_kill(child_start(child_join, NULL));
	ck_assert_int_eq(segment_remove("job"), -EBUSY); /* drains */
	drained();
	ck_assert_int_eq(segment_remove("job"), 0);
}
END_TEST

/* Lets others come first: they join the job, whose lock is not held, and end it. */
static int take_after_others(int (*take)(void *of), void *of)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct segment *segment;
		int error;

		segment_owner(NULL);
		error = segment_join("job", NULL, NULL, &segment, NULL, 0);
		if (!error)
			segment_leave(segment);
		_exit(error || segment_remove("job") != 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	return take(of);
}

/* A crowd of processes starts without waiting until the thread of each that takes its slot
 * has run. */
START_TEST(a_job_is_not_locked_while_a_slot_is_taken)
{
	segment_owner(take_after_others);
	struct segment *segment = join(NULL);
	segment_owner(NULL);
	look();
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_int_eq(view.process[0].pid, getpid());
	segment_leave(segment);
	ck_assert_int_eq(segment_remove("job"), 0);
}
END_TEST

/* As a process that was killed between the two steps of a removal leaves it. */
START_TEST(a_segment_that_was_not_quite_removed_is_replaced)
{
	segment_leave(join(NULL));
	patch(path_of("job"), offsetof(struct segment_header, is_removed), &(uint32_t){1}, 4);
	struct segment *segment = join(NULL);
	look();
	ck_assert_int_eq(view.process_count, 1);
	segment_leave(segment);
}
END_TEST

START_TEST(an_unnamed_job_leaves_nothing_behind)
{
	struct segment *segment = join(NULL), *other = join(NULL);
	ck_assert_int_eq(segment_remove_own(segment), -EBUSY);
	segment_leave(other);
	ck_assert_int_eq(segment_remove_own(segment), 0);
	ck_assert_int_ne(access(path_of("job"), F_OK), 0);
	segment_device(segment, &gpu);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_HOST, 5, 5), 0);
	segment_leave(segment);
}
END_TEST

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static struct segment *share(const char *job, const char *shared_by)
{
	struct segment *segment = NULL;
	char message[512] = "";
	int error =
	    segment_join_unnamed(job, NULL, NULL, shared_by, &segment, message, sizeof message);
	ck_assert_msg(error == 0, "%d: %s", error, message);
	return segment;
}

static void child_share(void *unused)
{
	struct segment *segment = share("job", "POSIX session 7");
	(void)unused;
	if (segment_device(segment, &gpu) != 0 ||
	    segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, UINT64_MAX) != 0)
		_exit(1);
}

/*
 * Where a limit is shared the next process must find charged what this one holds until it has died.
 */
START_TEST(a_shared_limit_is_known_while_anything_is_held)
{
	char override[512];
	struct segment *segment = share("job", "POSIX session 7");
	struct segment *other = share("job", "POSIX session 7");

	ck_assert_int_eq(directory_override_path("job", override, sizeof override), 0);
	look();
	ck_assert_str_eq(view.shared_by, "POSIX session 7");
	segment_device(segment, &gpu);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 5, 5), 0);
	close(open(override, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(segment_remove_own(segment), -EBUSY);
	ck_assert(is_there(override));

	/* Two that exit at once do not wait for each other; what was set was for those who live. */
	segment_exiting(other);
	segment_exiting(segment);
	ck_assert_int_eq(segment_remove_own(segment), 0);
	ck_assert(!is_there(override));
	ck_assert(is_there(path_of("job")));
	ck_assert_int_eq(segment_remove_own(other), -ENOENT);
	ck_assert(is_there(path_of("job")));
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 5);
	ck_assert_int_eq(segment_remove_own(segment), 0);
	ck_assert(!is_there(path_of("job")));
	segment_leave(other);
	segment_leave(segment);
}
END_TEST

START_TEST(what_killed_sharers_left_goes_with_the_next)
{
	char override[512];

	ck_assert_int_eq(directory_override_path("job", override, sizeof override), 0);
	child_kill(child_start(child_share, NULL));
	close(open(override, O_CREAT | O_WRONLY, 0600));

	/* One of the same name: the limits of the dead are not his, their memory is charged. */
	struct segment *segment = share("job", "POSIX session 8");
	look();
	ck_assert_str_eq(view.shared_by, "POSIX session 8");
	ck_assert(!is_there(override));
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 100);
	close(open(override, O_CREAT | O_WRONLY, 0600));
	struct segment *other = share("job", "POSIX session 8");
	ck_assert(is_there(override)); /* of who lives */
	segment_leave(other);
	segment_leave(segment);

	/* One of another name, once it has drained. */
	segment = share("other", "");
	ck_assert(is_there(path_of("job")));
	drained();
	segment_remove_left(segment);
	ck_assert(!is_there(path_of("job")));
	ck_assert(!is_there(override));
	segment_leave(segment);

	/* A name that somebody gives later is kept. */
	segment_leave(share("job", ""));
	segment_leave(join(NULL));
	look();
	ck_assert(!view.is_unnamed);
	ck_assert_str_eq(view.shared_by, "");
	segment = share("other", "");
	ck_assert(is_there(path_of("job")));
	segment_leave(segment);
}
END_TEST

START_TEST(an_unnamed_job_is_removed_where_it_was_made)
{
	struct segment *segment = join(NULL);
	char directory[512], path[512];
	ck_assert_int_eq(directory_segment_path("job", path, sizeof path), 0);
	directory_path(directory, sizeof directory);
	/* the program has changed its environment since */
	setenv("SPILLWAY_STATE_DIR", "/nowhere", 1);
	int error = segment_remove_own(segment);
	setenv("SPILLWAY_STATE_DIR", directory, 1);
	ck_assert_int_eq(error, 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	segment_leave(segment);
}
END_TEST

START_TEST(bad_names)
{
	struct segment *segment = NULL;
	char message[512] = "";
	ck_assert_int_eq(segment_join("a/b", NULL, NULL, &segment, message, sizeof message),
	                 -EINVAL);
	ck_assert_ptr_nonnull(strstr(message, "a/b"));
	ck_assert_int_eq(segment_join(NULL, NULL, NULL, &segment, NULL, 0), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("segment");
	TCase *tests = tcase_create("segment");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_process_is_seen);
	tcase_add_test(tests, threads_and_contexts_are_known_while_it_lives);
	tcase_add_test(tests, a_new_run_begins_at_zero);
	tcase_add_test(tests, a_run_that_is_named_goes_on);
	tcase_add_test(tests, a_second_process_goes_on_with_the_run);
	tcase_add_test(tests, sums_outlive_processes_and_settings_are_the_living_ones);
	tcase_add_test(tests, settings_end_with_the_life_of_the_job);
	tcase_add_test(tests, the_dead_drain_and_then_go);
	tcase_add_test(tests, a_lane_begins_at_zero);
	tcase_add_test(tests, a_run_has_its_own_peak);
	tcase_add_test(tests, a_killed_job_is_over_for_those_who_look);
	tcase_add_test(tests, a_death_long_ago_is_over_at_once);
	tcase_add_test(tests, a_death_in_the_future_drains_once);
	tcase_add_test(tests, a_drain_begins_when_the_death_is_noticed);
	tcase_add_test(tests, a_normal_exit_drains_quickly);
	tcase_add_test(tests, killed_inside_the_lock);
	tcase_add_loop_test(tests, killed_while_retiring, 0, 2);
	tcase_add_test(tests, a_stopped_holder_delays_for_a_while_and_loses_nothing);
	tcase_add_test(tests, all_create_one);
	tcase_add_loop_test(tests, killed_anywhere, 0, 5);
	tcase_add_test(tests, another_version_is_refused_and_left_alone);
	tcase_add_test(tests, another_build_s_is_refused_and_left_alone);
	tcase_add_test(tests, what_is_no_segment_is_refused);
	tcase_add_test(tests, the_segment_of_another_boot_is_replaced);
	tcase_add_test(tests, what_a_killed_creator_left_is_overwritten);
	tcase_add_test(tests, a_forked_child_does_not_keep_the_slot);
	tcase_add_test(tests, exec_ends_the_slot);
	tcase_add_test(tests, lives_and_dies_in_another_pid_namespace);
	tcase_add_test(tests, no_signal_where_files_may_not_grow);
	tcase_add_test(tests, the_slot_ends_with_its_thread);
	tcase_add_test(tests, full);
	tcase_add_test(tests, removing);
	tcase_add_test(tests, a_job_is_not_locked_while_a_slot_is_taken);
	tcase_add_test(tests, a_segment_that_was_not_quite_removed_is_replaced);
	tcase_add_test(tests, an_unnamed_job_leaves_nothing_behind);
	tcase_add_test(tests, a_shared_limit_is_known_while_anything_is_held);
	tcase_add_test(tests, what_killed_sharers_left_goes_with_the_next);
	tcase_add_test(tests, an_unnamed_job_is_removed_where_it_was_made);
	tcase_add_test(tests, bad_names);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
