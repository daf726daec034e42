/* SPDX-License-Identifier: MIT */
/* Summaries of a job: its processes, and all of them together. They read nothing but the copy. */
#include "core/view/summary.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/ledger/placed.h"
#include "core/ledger/verdict.h"

/*
 * Returns whether the seat is free, live or draining, though nobody may have noticed a death yet.
 */
static enum segment_seat_state state_now(const struct segment_file *copy, int number,
                                         bool this_boot)
{
	enum segment_seat_state state = seat_state(&copy->header, number);
	const struct segment_seat *seat = seat_of(copy, number);
	uint64_t now = clock_now();

	if (state == SEAT_FREE || !this_boot)
		return SEAT_FREE;
	if (state == SEAT_LIVE) {
		if (seat_owner_lives(seat))
			return SEAT_LIVE;
		return seat_drain_left(&copy->header, seat, now) > 0 ? SEAT_DRAINING : SEAT_FREE;
	}
	return seat_is_drained(seat, now) ? SEAT_FREE : SEAT_DRAINING;
}

/*
 * Reads a count that is stored as one more than there are, whatever stands in the file. Returns -1
 * where it is not known.
 */
static int counted(uint32_t count)
{
	return count && count <= (uint32_t)INT_MAX ? (int)count - 1 : -1;
}

static void add_process(struct segment_view *view, const struct segment_file *copy, int number,
                        enum segment_seat_state state)
{
	const struct segment_seat *seat = seat_of(copy, number);
	struct segment_process *process = &view->process[view->process_count++];
	process->state = state;
	process->pid = seat->pid;
	memcpy(process->command, seat->command, sizeof process->command);
	process->started_ns = seat->started_ns;
	process->override_hash = seat->override_hash;
	process->threads = state == SEAT_LIVE ? counted(seat->threads) : -1;
	process->contexts = state == SEAT_LIVE ? counted(seat->contexts) : -1;
	memcpy(process->complaint, seat->complaint, sizeof process->complaint);
	for (int d = 0; d < view->device_count; d++)
		for (int s = 0; s < SEGMENT_SIDES; s++) {
			process->charged[d][s] =
			    ledger_charged(&books_of(copy, number, d)->ledger, s);
			view->charged[d][s] += process->charged[d][s];
		}
}

/* Returns the peak. What is charged was read later, and may be more. */
static uint64_t peak(const struct segment_file *copy, const struct segment_view *view, int device,
                     enum segment_side side)
{
	uint64_t was = copy->header.peak[device][side], is = view->charged[device][side];

	for (int n = -1; (n = seats_next(&copy->header, n, SEATS_ALL)) >= 0;)
		was = quota_peak(was, &books_of(copy, n, device)->ledger, side);
	return is > was ? is : was;
}

/* Returns the peak of what the driver took for itself. */
static uint64_t driver_peak(const struct segment_file *copy, const struct statistics *total,
                            int device)
{
	uint64_t was = copy->header.driver_peak[device], is = statistics_get(&total->driver_used);

	for (int n = -1; (n = seats_next(&copy->header, n, SEATS_ALL)) >= 0;)
		was = quota_driver_peak(was, &books_of(copy, n, device)->ledger);
	return is > was ? is : was;
}

/* --- what is shown --- */

static void show_counters(struct statistics *shown, const struct counters *counters)
{
#define X(name, how, unit, meaning) statistics_set(&shown->name, counters_get(counters, name));
	COUNTERS(X)
#undef X
}

static void show_verdict(struct statistics *shown, const struct verdict *verdict)
{
	statistics_set(&shown->limit_set, verdict->limit);
	statistics_set(&shown->limit_held, verdict->limit_held);
	statistics_set(&shown->limit_grown, verdict->grown);
	statistics_set(&shown->share_set, verdict->share);
	statistics_set(&shown->evicted, verdict->evicted);
	statistics_set(&shown->elastic, verdict->elastic);
	statistics_set(&shown->held_reason, verdict->held);
	statistics_set(&shown->move_pending, verdict->pending);
}

static void show_words(struct statistics *shown, const struct ledger_copy *ledger)
{
	statistics_add(&shown->device_used, ledger->charged[SEGMENT_ON_DEVICE]);
	statistics_add(&shown->host_used, ledger->charged[SEGMENT_ON_HOST]);
	statistics_add(&shown->device_pool, ledger->spare[SEGMENT_ON_DEVICE]);
	statistics_add(&shown->host_pool, ledger->spare[SEGMENT_ON_HOST]);
	statistics_add(&shown->pinned_chunks, ledger->pinned);
	statistics_add(&shown->driver_used, ledger->driver_used);
}

static void show_placed(struct statistics *shown, const struct segment_books *books)
{
	struct placed placed = placed_unpack(statistics_get(&books->placed));

	/* Of several processes the one of which most is known tells. */
	if (placed.placement < statistics_get(&shown->placement))
		return;
	statistics_set(&shown->placement, placed.placement);
	statistics_set(&shown->kernels_before, placed.before * UINT64_C(1000));
	statistics_set(&shown->kernels_best, placed.best * UINT64_C(1000));
	statistics_set(&shown->shrink, placed.shrink);
}

static void show_process(struct statistics *shown, const struct segment_books *books,
                         const struct ledger_copy *ledger, const struct standing *standing)
{
	struct verdict verdict = verdict_of(ledger, 1, standing);

	show_counters(shown, &books->counters);
	show_words(shown, ledger);
	show_verdict(shown, &verdict);
	show_placed(shown, books);
	statistics_set(&shown->device_peak, ledger->peak[SEGMENT_ON_DEVICE]);
	statistics_set(&shown->host_peak, ledger->peak[SEGMENT_ON_HOST]);
	statistics_set(&shown->driver_peak, ledger->driver_peak);
}

/*
 * Returns what is known of a job without processes: the settings of the last one, which holds
 * nothing.
 */
static struct verdict verdict_of_ended(const struct facts *facts, const struct standing *standing)
{
	struct ledger_copy last = {.is_whole = true, .facts = *facts};
	struct verdict verdict = verdict_of(&last, 1, standing);

	verdict.held = HELD_NONE;
	verdict.pending = MOVE_NONE;
	return verdict;
}

static struct ledger_copy copy_ledger(const struct job_copy *job, int seat, int device)
{
	struct ledger_copy copy = ledger_read(&books_of(&job->file, seat, device)->ledger);

	if (job->changing[seat] & 1u << device) {
		copy.is_whole = false;
		copy.facts = (struct facts){0};
	}
	return copy;
}

/* Shows one device: of each process, and of the job. */
static void show_device(struct job_copy *job, struct segment_view *view, int d)
{
	const struct segment_header *header = &job->file.header;
	struct statistics *total = &view->job_total[d];
	struct standing standing = {.charged = view->charged[d][SEGMENT_ON_DEVICE],
	                            .orphaned = view->orphaned[d],
	                            .generation = header->claim[d].generation};
	struct segment_ended known = header->ended[d];
	struct verdict verdict;
	int live = 0, shown = 0;

	/* the ended first: the settings of the live ones replace theirs */
	for (int n = -1; (n = seats_next(header, n, SEATS_ALL)) >= 0;)
		if (job->state[n] != SEAT_LIVE)
			totals_add_ended(&known, books_of(&job->file, n, d));
	for (int n = -1; (n = seats_next(header, n, SEATS_ALL)) >= 0;) {
		if (job->state[n] != SEAT_LIVE)
			continue;
		if (!live)
			totals_forget_settings(&known.counters);
		job->ledger[live] = copy_ledger(job, n, d);
		totals_add_live(&known.counters, &books_of(&job->file, n, d)->counters);
		show_placed(total, books_of(&job->file, n, d));
		show_words(total, &job->ledger[live++]);
	}
	verdict = live ? verdict_of(job->ledger, live, &standing)
	               : verdict_of_ended(&known.facts, &standing);
	/* who has older settings is judged by the newest */
	standing.generation = verdict.generation;
	for (int n = -1; (n = seats_next(header, n, SEATS_ALL)) >= 0;) {
		struct ledger_copy ledger = copy_ledger(job, n, d);

		if (job->state[n] != SEAT_FREE)
			show_process(&view->process[shown++].device[d], books_of(&job->file, n, d),
			             &ledger, &standing);
	}
	show_counters(total, &known.counters);
	show_verdict(total, &verdict);
	statistics_set(&total->device_peak, peak(&job->file, view, d, SEGMENT_ON_DEVICE));
	statistics_set(&total->host_peak, peak(&job->file, view, d, SEGMENT_ON_HOST));
	statistics_set(&total->driver_peak, driver_peak(&job->file, total, d));
}

/*
 * Adds what a process that lives has open, or may come to, although its owner is gone; the next
 * look of one of them says.
 */
static void add_orphaned(struct segment_view *view, const struct job_copy *job)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++) {
		const struct segment_export *e = &job->file.export[i];
		uint32_t owner = e->owner;

		if (!e->bytes || e->device >= SEGMENT_DEVICES || owner > SEGMENT_SEATS ||
		    (owner && job->state[owner - 1] != SEAT_FREE))
			continue;
		view->orphaned[e->device] += e->bytes;
		view->charged[e->device][SEGMENT_ON_DEVICE] += e->bytes;
	}
}

int summary_of(struct job_copy *job, struct segment_view *view)
{
	const struct segment_file *copy = &job->file;
	const struct segment_header *header = &copy->header;
	bool this_boot = segment_is_of_this_boot(header);
	int live = 0, count = 0;

	free(view->process);
	memset(view, 0, sizeof *view);
	memcpy(view->job, header->job, sizeof view->job);
	memcpy(view->labels, header->labels, sizeof view->labels);
	memcpy(view->run, header->run, sizeof view->run);
	view->run[sizeof view->run - 1] = '\0';
	view->version = header->version;
	view->is_unnamed = header->is_unnamed != 0;
	memcpy(view->shared_by, header->shared_by, sizeof view->shared_by);
	view->token = header->token;
	view->owner = job->owner;
	view->created_ns = header->created_ns;
	view->device_count = devices_of(header);
	memcpy(view->device, header->device, sizeof view->device);

	for (int n = -1; (n = seats_next(header, n, SEATS_ALL)) >= 0;) {
		job->state[n] = state_now(copy, n, this_boot);
		live += job->state[n] == SEAT_LIVE;
		count += job->state[n] != SEAT_FREE;
	}
	view->process = calloc((size_t)count + 1, sizeof *view->process);
	if (!view->process)
		return -ENOMEM;
	for (int n = -1; (n = seats_next(header, n, SEATS_ALL)) >= 0;)
		if (job->state[n] != SEAT_FREE)
			add_process(view, copy, n, job->state[n]);
	if (live)
		add_orphaned(view, job);
	for (int d = 0; d < view->device_count; d++)
		show_device(job, view, d);
	view->ended_ns = live ? 0 : header->seen_ns;
	return 0;
}
