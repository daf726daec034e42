/* SPDX-License-Identifier: MIT */
/*
 * Waiting until every process of a job obeys its override file, and all movable memory has moved.
 */
#include "tools/cli/follow.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/cli/moving.h"
#include "tools/formats/value.h"
#include "tools/formats/report_moves.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

enum { LOOK_NS = 20000000 };

char *follow_override_path(const char *job)
{
	struct segment_view *view = jobs_read(job);
	char path[PATH_MAX];
	bool alive;

	if (!view)
		return NULL;
	alive = jobs_live_process(view);
	segment_view_free(view);
	if (!alive) {
		complain("job '%s' has ended: no live process to follow a change", job);
		return NULL;
	}
	if (directory_override_path(job, path, sizeof path) != 0)
		return NULL; /* jobs_read() has seen the name */
	return text("%s", path);
}

/*
 * Reads the hash of the override file and the pause as they stand: someone else may have changed
 * them since we did. A file that is bad has one, too: processes say that they have read it.
 */
static bool current_hash(const char *job, uint64_t *hash)
{
	char path[PATH_MAX];
	struct config_pause pause;
	struct config_error error, complaint;
	const struct config_sources sources = {
	    .override_file = path, .pause = &pause, .complaint = &complaint};
	struct config *config = NULL;

	if (directory_override_path(job, path, sizeof path) != 0)
		return false;
	jobs_pause(job, &pause);
	if (config_load(&sources, &config, &error) != 0) {
		complain("%s", error.message);
		return false;
	}
	*hash = config_job(config)->override_hash;
	config_release(config);
	return true;
}

static const struct segment_process *lagging(const struct segment_view *view, uint64_t hash)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].state == SLOT_LIVE && view->process[i].override_hash != hash)
			return &view->process[i];
	return NULL;
}

/* Prints the limit, and where the GPU has less. */
static void print_limit(const struct statistics *total, uint64_t memory)
{
	char limit[32], size[32];

	printf("limit %s", value_limit(total->limit_set, limit, sizeof limit));
	if (memory && total->limit_set != CONFIG_UNLIMITED && total->limit_set > memory)
		printf(" (more than the GPU has, %s)",
		       units_format_size(memory, size, sizeof size));
	if (total->limit_grown)
		printf(" (grown by %s)", units_format_size(total->limit_grown, size, sizeof size));
}

static void print_limits(const struct segment_view *view)
{
	struct config_pause pause;
	bool is_paused = jobs_pause(view->job, &pause);

	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *total = &view->job_total[i];
		uint64_t used = view->charged[i][SEGMENT_ON_DEVICE];
		const char *why = report_held(total);
		char size[32];

		if (!jobs_gpu_is_used(view, i))
			continue;
		printf("gpu %d: ", i);
		print_limit(total, view->device[i].memory);
		printf(", share %s", value_share(total->share_set, size, sizeof size));
		if (is_paused)
			printf(", paused until 'spillway resume %s'", view->job);
		if (why)
			printf("; %s in use: %s (%s)",
			       units_format_size(total->limit_held, size, sizeof size),
			       report_held_meaning(total->held_reason), why);
		if (used > total->limit_set)
			printf(". New memory goes to the host until less than the limit is in use");
		printf("\n");
	}
}

/* A wait for a job's processes, or for its eviction. */
struct wait {
	const char *job;
	uint64_t timeout_ns;
	bool is_eviction;
	const struct config_change *change; /* NULL: nothing that could be taken back */
	uint64_t deadline, moved;
	int refusals; /* in a row */
};

/*
 * Returns whether the time is over; now was taken before the view. An eviction has time as long as
 * it goes on.
 */
static bool follow_is_over(struct wait *wait, const struct segment_view *view, uint64_t now)
{
	uint64_t moved = moving_demoted(view);

	if (wait->is_eviction && moved != wait->moved)
		wait->deadline = now + wait->timeout_ns;
	wait->moved = moved;
	return now >= wait->deadline;
}

static void complain_of(const struct wait *wait, const struct segment_process *late)
{
	char limit[32];

	complain("process %d (%s) of job '%s' does not follow within %s%s%s", (int)late->pid,
	         late->command, wait->job,
	         units_format_duration(wait->timeout_ns, limit, sizeof limit),
	         *late->complaint ? ": " : "", late->complaint);
}

/*
 * Finds a process that refuses the change. One of this version says so of the file that it has
 * read. One of an earlier version does not follow, and complains of the file.
 */
static const struct segment_process *refusing(const struct segment_view *view, uint64_t hash,
                                              const char *path)
{
	bool is_earlier = view->version < SEGMENT_VERSION;

	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];
		bool follows = process->override_hash == hash;

		if (process->state == SLOT_LIVE &&
		    (is_earlier ? !follows && strstr(process->complaint, path)
		                : follows && strncmp(process->complaint, FOLLOW_REFUSED,
		                                     strlen(FOLLOW_REFUSED)) == 0))
			return process;
	}
	return NULL;
}

/* A process of an earlier version complains before it follows, and may complain of old values. */
enum { REFUSALS_FOR_SURE = 25 };

/* Takes back a change that a process refuses. Returns whether it does. */
static bool take_back(struct wait *wait, const struct segment_view *view, uint64_t hash)
{
	const struct config_change *change = wait->change;
	const struct segment_process *by = change ? refusing(view, hash, change->path) : NULL;
	struct deadline patience = DEADLINE_IN(wait->timeout_ns);
	struct config_error error;
	const char *why;

	wait->refusals = by ? wait->refusals + 1 : 0;
	if (!by || (view->version < SEGMENT_VERSION && wait->refusals < REFUSALS_FOR_SURE))
		return false;
	why = by->complaint;
	if (strncmp(why, FOLLOW_REFUSED, strlen(FOLLOW_REFUSED)) == 0)
		why += strlen(FOLLOW_REFUSED);
	if (config_override_take_back(change, &patience, &error) != 0)
		complain("%s", error.message);
	complain("process %d (%s) of job '%s' refuses the change, so it is taken back: %s",
	         (int)by->pid, by->command, wait->job, why);
	return true;
}

static int report(const struct wait *wait, const struct segment_view *view)
{
	print_limits(view);
	return !wait->is_eviction || moving_report_eviction(view) ? TOOL_OK : TOOL_FAILED;
}

/* Looks once. Returns whether the wait is over; *status says how. */
static bool follow_look(struct wait *wait, int *status)
{
	uint64_t now = clock_now(), hash;
	struct segment_view *view = jobs_read(wait->job);
	const struct segment_process *late;
	bool over, done;

	*status = TOOL_FAILED;
	if (!view || !current_hash(wait->job, &hash)) {
		segment_view_free(view);
		return true;
	}
	if (take_back(wait, view, hash)) {
		segment_view_free(view);
		return true;
	}
	over = follow_is_over(wait, view, now);
	late = lagging(view, hash);
	done = !late && (over || !moving_goes_on(view, MOVING_OUT));
	moving_show(done || over ? NULL : view, MOVING_OUT);
	if (done)
		*status = report(wait, view);
	else if (over)
		complain_of(wait, late);
	segment_view_free(view);
	return done || over;
}

static int follow_until(struct wait *wait)
{
	int status;

	wait->deadline = clock_now() + wait->timeout_ns;
	segment_ring(wait->job);
	while (!follow_look(wait, &status))
		deadline_sleep(LOOK_NS);
	return status;
}

int follow(const char *job, uint64_t timeout_ns)
{
	return follow_until(&(struct wait){.job = job, .timeout_ns = timeout_ns});
}

int follow_change(const char *job, uint64_t timeout_ns, const struct config_change *change)
{
	return follow_until(&(struct wait){.job = job, .timeout_ns = timeout_ns, .change = change});
}

int follow_eviction(const char *job, uint64_t timeout_ns)
{
	return follow_until(
	    &(struct wait){.job = job, .timeout_ns = timeout_ns, .is_eviction = true});
}

/* A mover that has something to move has moved some of it by then. */
#define STANDSTILL_NS 1000000000ull

void follow_return(const char *job, uint64_t timeout_ns)
{
	uint64_t now = clock_now(), last = now, least = UINT64_MAX, hash;
	uint64_t patience_ns = timeout_ns < STANDSTILL_NS ? timeout_ns : STANDSTILL_NS;
	bool goes_on = true;

	segment_ring(job);
	for (; goes_on && now - last < timeout_ns; now = clock_now()) {
		struct segment_view *view = jobs_read(job);

		if (!view || !current_hash(job, &hash)) {
			segment_view_free(view);
			break;
		}
		moving_look(view);
		/* Memory that changes places is none that has come back. */
		if (moving_left(view, MOVING_BACK) < least) {
			last = now;
			least = moving_left(view, MOVING_BACK);
		}
		goes_on = lagging(view, hash) ||
		          (moving_goes_on(view, MOVING_BACK) && now - last < patience_ns);
		moving_show(view, MOVING_BACK);
		segment_view_free(view);
		if (goes_on)
			deadline_sleep(LOOK_NS);
	}
	moving_show(NULL, MOVING_BACK);
}
