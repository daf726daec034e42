/* SPDX-License-Identifier: MIT */
/*
 * A job as readers see it: a copy of its segment, taken by pread and made consistent, and the sums
 * that are shown of it.
 *
 * Nothing is mapped (a truncated file would be SIGBUS) and nothing written. Process slots come and
 * go under header.sequence, so a copy during which it moved is taken again. A killed or stopped
 * process leaves it odd, and then it stands still. That copy is repaired as the next holder of the
 * lock would repair the file. A counter is an aligned word, which the kernel copies whole. Counters
 * that belong together are read again until no change of them was under way. A process that has had
 * time to end a change and has not was stopped or killed. A process lives when its slot's futex
 * word says so (slot_owner_lives). That is the mutex's own truth, readable without a trylock.
 * Unlike pids and record locks it is right across pid namespaces, fork and closed descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "core/ledger/codes.h"
#include "core/ledger/verdict.h"
#include "core/state/before.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

/*
 * Summaries: the figures shown of a job, from a copy of its segment that was read and checked.
 * Private.
 */

/* A copy that was read of a job. Slots that are not in use, and devices that were not met,
 * are neither read nor looked at. */
struct job_copy {
	struct segment_file file;
	uid_t owner;
	uint16_t
	    changing[SEGMENT_SLOTS]; /* a bit per device whose facts were changing at each try */
	enum segment_slot_state state[SEGMENT_SLOTS]; /* now */
	struct ledger_copy ledger[SEGMENT_SLOTS];     /* of the live ones, of the device at hand */
};

/*
 * Returns whether the slot is free, live or draining, also where no process has noticed a death
 * yet.
 */
static enum segment_slot_state state_now(const struct segment_file *copy, int number,
                                         bool this_boot)
{
	enum segment_slot_state state = slot_state(&copy->header, number);
	const struct segment_slot *slot = slot_of(copy, number);
	uint64_t now = clock_now();

	if (state == SLOT_FREE || !this_boot)
		return SLOT_FREE;
	if (state == SLOT_LIVE) {
		if (slot_owner_lives(slot))
			return SLOT_LIVE;
		return slot_drain_left(&copy->header, slot, now) > 0 ? SLOT_DRAINING : SLOT_FREE;
	}
	return slot_is_drained(slot, now) ? SLOT_FREE : SLOT_DRAINING;
}

/*
 * Reads a count that is stored as one more than there are, from any file contents. Returns -1 where
 * it is not known.
 */
static int counted(uint32_t count)
{
	return count && count <= (uint32_t)INT_MAX ? (int)count - 1 : -1;
}

static void view_add_process(struct segment_view *view, const struct segment_file *copy, int number,
                             enum segment_slot_state state)
{
	const struct segment_slot *slot = slot_of(copy, number);
	struct segment_process *process = &view->process[view->process_count++];
	process->state = state;
	process->pid = slot->pid;
	memcpy(process->command, slot->command, sizeof process->command);
	process->started_ns = slot->started_ns;
	process->override_hash = slot->override_hash;
	process->lacks = (unsigned int)slot->lacks;
	process->threads = state == SLOT_LIVE ? counted(slot->threads) : -1;
	process->contexts = state == SLOT_LIVE ? counted(slot->contexts) : -1;
	memcpy(process->complaint, slot->complaint, sizeof process->complaint);
	for (int d = 0; d < view->device_count; d++)
		for (int s = 0; s < SEGMENT_TIERS; s++) {
			process->charged[d][s] =
			    ledger_charged(&books_of(copy, number, d)->ledger, s);
			view->charged[d][s] += process->charged[d][s];
		}
}

/* Returns the peak. The charges were read later, and may be more. */
static uint64_t peak(const struct segment_file *copy, const struct segment_view *view, int device,
                     enum segment_tier tier)
{
	uint64_t was = copy->header.peak[device][tier];
	uint64_t all = view->charged[device][tier];
	uint64_t earlier = quota_of_earlier_runs(copy, device, tier);
	uint64_t is = all > earlier ? all - earlier : 0;

	for (int n = -1; (n = slots_next(&copy->header, n, SLOTS_ALL)) >= 0;)
		was = quota_peak(was, &books_of(copy, n, device)->ledger, tier);
	return is > was ? is : was;
}

/* Returns the peak of the driver's own memory. */
static uint64_t driver_peak(const struct segment_file *copy, const struct statistics *total,
                            int device)
{
	uint64_t was = copy->header.driver_peak[device];
	uint64_t all = statistics_get(&total->driver_used);
	uint64_t earlier = quota_driver_of_earlier_runs(copy, device);
	uint64_t is = all > earlier ? all - earlier : 0;

	for (int n = -1; (n = slots_next(&copy->header, n, SLOTS_ALL)) >= 0;)
		was = quota_driver_peak(was, &books_of(copy, n, device)->ledger);
	return is > was ? is : was;
}

/* --- the figures shown --- */

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

/* Of several processes, one that knows a limit tells it. */
static void show_outside(struct statistics *shown, const uint64_t outside[LEDGER_OUTSIDE])
{
	uint64_t sources = outside[OUTSIDE_SOURCES];

	if (outside[OUTSIDE_RESERVE])
		statistics_set(&shown->reserve, outside[OUTSIDE_RESERVE]);
	if (!sources)
		return;
	statistics_set(&shown->hard_limit, outside[OUTSIDE_HARD] - 1);
	statistics_set(&shown->hard_from, sources & 0xff);
	statistics_set(&shown->soft_limit, outside[OUTSIDE_SOFT]);
	statistics_set(&shown->soft_from, sources >> 8 & 0xff);
}

static void show_words(struct statistics *shown, const struct ledger_copy *ledger)
{
	statistics_add(&shown->device_used, ledger->charged[SEGMENT_ON_DEVICE]);
	statistics_add(&shown->host_used, ledger->charged[SEGMENT_ON_HOST]);
	statistics_add(&shown->device_pool, ledger->spare[SEGMENT_ON_DEVICE]);
	statistics_add(&shown->host_pool, ledger->spare[SEGMENT_ON_HOST]);
	statistics_add(&shown->pinned_chunks, ledger->pinned);
	statistics_add(&shown->driver_used, ledger->driver_used);
	show_outside(shown, ledger->outside);
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
 * Returns the facts of a job without processes: the settings of the last one, which holds nothing.
 */
static struct verdict verdict_of_ended(const struct facts *facts, const struct standing *standing)
{
	struct ledger_copy last = {.is_whole = true, .facts = *facts};
	struct verdict verdict = verdict_of(&last, 1, standing);

	verdict.held = HELD_NONE;
	verdict.pending = MOVE_NONE;
	return verdict;
}

static struct ledger_copy copy_ledger(const struct job_copy *job, int slot, int device)
{
	struct ledger_copy copy = ledger_read(&books_of(&job->file, slot, device)->ledger);

	if (job->changing[slot] & 1u << device) {
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
	                            .generation = header->applied[d].generation};
	struct segment_ended known = header->ended[d];
	struct verdict verdict;
	int live = 0, shown = 0;

	/* the ended first: the settings of the live ones replace theirs */
	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;)
		if (job->state[n] != SLOT_LIVE)
			totals_add_ended(&known, books_of(&job->file, n, d));
	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;) {
		if (job->state[n] != SLOT_LIVE)
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
	/* a process with older settings is judged by the newest */
	standing.generation = verdict.generation;
	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;) {
		struct ledger_copy ledger = copy_ledger(job, n, d);

		if (job->state[n] != SLOT_FREE)
			show_process(&view->process[shown++].device[d], books_of(&job->file, n, d),
			             &ledger, &standing);
	}
	view->limit_most[d] = header->limit_most[d];
	show_counters(total, &known.counters);
	show_verdict(total, &verdict);
	statistics_set(&total->device_peak, peak(&job->file, view, d, SEGMENT_ON_DEVICE));
	statistics_set(&total->host_peak, peak(&job->file, view, d, SEGMENT_ON_HOST));
	statistics_set(&total->driver_peak, driver_peak(&job->file, total, d));
}

/*
 * Adds memory that a live process has open, or may open, although its owner is gone; the next look
 * of such a process decides.
 */
static void add_orphaned(struct segment_view *view, const struct job_copy *job)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++) {
		const struct segment_export *e = &job->file.export[i];
		uint32_t owner = e->owner;

		if (!e->bytes || e->device >= SEGMENT_DEVICES || owner > SEGMENT_SLOTS ||
		    (owner && job->state[owner - 1] != SLOT_FREE))
			continue;
		view->orphaned[e->device] += e->bytes;
		view->charged[e->device][SEGMENT_ON_DEVICE] += e->bytes;
	}
}

/* Shows it. Returns 0, or -ENOMEM. */
static int summary_of(struct job_copy *job, struct segment_view *view)
{
	const struct segment_file *copy = &job->file;
	const struct segment_header *header = &copy->header;
	bool this_boot = segment_is_of_this_boot(header->boot_id);
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

	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;) {
		job->state[n] = state_now(copy, n, this_boot);
		live += job->state[n] == SLOT_LIVE;
		count += job->state[n] != SLOT_FREE;
	}
	view->process = calloc((size_t)count + 1, sizeof *view->process);
	if (!view->process)
		return -ENOMEM;
	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;)
		if (job->state[n] != SLOT_FREE)
			view_add_process(view, copy, n, job->state[n]);
	if (live)
		add_orphaned(view, job);
	for (int d = 0; d < view->device_count; d++)
		show_device(job, view, d);
	view->ended_ns = live ? 0 : header->seen_ns;
	return 0;
}

uint64_t segment_view_patience_ns = 30000000;

#define READ_STILL_NS 50000000ull

enum { READ_FACTS_TRIES = 100, READ_PAUSE_NS = 1000000, READ_COUNTERS_PAUSE_NS = 20000 };

/* Reads so many bytes. Returns 0 or a negative errno; -EPROTO: the file is shorter. */
static int read_fully(int fd, void *buf, size_t size, off_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t length = pread(fd, (char *)buf + done, size - done, offset + (off_t)done);
		if (length < 0 && errno != EINTR)
			return -errno;
		if (length == 0)
			return -EPROTO;
		if (length > 0)
			done += (size_t)length;
	}
	return 0;
}

/*
 * Reads the counters of one process on one device. They are whole when as many changes had ended
 * before they were read as had begun thereafter.
 */
static int read_counters(int fd, off_t at, struct counters *counters, bool *is_whole)
{
	uint64_t ended, begun;
	int error =
	    read_fully(fd, &ended, sizeof ended, at + (off_t)offsetof(struct counters, ended));

	atomic_thread_fence(memory_order_acquire);
	if (!error)
		error = read_fully(fd, counters, sizeof *counters, at);
	atomic_thread_fence(memory_order_acquire);
	if (!error)
		error = read_fully(fd, &begun, sizeof begun,
		                   at + (off_t)offsetof(struct counters, begun));
	if (!error)
		*is_whole = ended == begun;
	return error;
}

/* Returns where in the file a part of its copy is. */
static off_t view_place_of(const struct segment_file *copy, const void *part)
{
	return (const char *)part - (const char *)copy;
}

/* Reads counters that belong together, together; sooner or later as they are. */
static int read_whole_counters(int fd, const struct segment_file *copy, struct counters *counters,
                               struct deadline *until)
{
	bool is_whole = false;
	int error;

	do {
		error = read_counters(fd, view_place_of(copy, counters), counters, &is_whole);
	} while (!error && !is_whole && deadline_nap(until, READ_COUNTERS_PAUSE_NS));
	return error;
}

/*
 * Reads the facts of one ledger, as they were at one time, and then its words. *is_whole: false
 * where the former could not be had.
 */
static int read_ledger(int fd, off_t at, struct ledger *ledger, bool *is_whole)
{
	const off_t words = offsetof(struct ledger, charged);
	uint64_t before, after = 0;
	int error = 0;

	*is_whole = false;
	for (int tries = 0; !error && !*is_whole && tries < READ_FACTS_TRIES; tries++) {
		error = read_fully(fd, &before, sizeof before, at);
		atomic_thread_fence(memory_order_acquire);
		if (!error)
			error = read_fully(fd, ledger, (size_t)words, at);
		atomic_thread_fence(memory_order_acquire);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		atomic_store(&ledger->facts.version, before);
		*is_whole = !error && before == after;
	}
	return error ? error
	             : read_fully(fd, ledger->charged, sizeof *ledger - (size_t)words, at + words);
}

/* Reads a process and its figures. */
static int view_read_slot(int fd, struct job_copy *job, int number, struct deadline *until)
{
	struct deadline none = DEADLINE_IN(0);
	bool is_live = slot_state(&job->file.header, number) == SLOT_LIVE;
	struct segment_file *copy = &job->file;
	struct segment_slot *slot = slot_of(copy, number);
	int error = read_fully(fd, slot, sizeof *slot, view_place_of(copy, slot));

	job->changing[number] = 0;
	for (int d = 0; !error && d < devices_of(&copy->header); d++) {
		struct segment_books *books = books_of(copy, number, d);
		bool is_whole;

		error = read_whole_counters(fd, copy, &books->counters, is_live ? until : &none);
		if (!error)
			error = read_ledger(fd, view_place_of(copy, &books->ledger), &books->ledger,
			                    &is_whole);
		if (!error)
			error = read_fully(fd, &books->placed, sizeof books->placed,
			                   view_place_of(copy, &books->placed));
		if (!error)
			job->changing[number] |= (uint16_t)(!is_whole << d);
	}
	return error;
}

/* Reads a copy, checked, of all that is in use, while slots neither come nor go. */
static int view_read_still(int fd, const char *name, struct job_copy *job, char *message,
                           size_t size)
{
	struct segment_header *header = &job->file.header;
	struct deadline still = DEADLINE_IN(READ_STILL_NS);
	struct deadline whole = DEADLINE_IN(segment_view_patience_ns);
	const off_t at = offsetof(struct segment_header, sequence);
	uint64_t after = 0;
	bool is_last;

	do {
		struct stat found;
		int error;

		is_last = deadline_has_passed(&still);
		error = read_fully(fd, header, sizeof *header, 0);
		if (!error && file_status_of(fd, &found) != 0)
			error = -errno;
		if (!error) {
			error = segment_check(header, (uint64_t)found.st_size, name, message, size);
			if (error)
				return error;
			error = read_fully(fd, job->file.export, sizeof job->file.export,
			                   offsetof(struct segment_file, export));
		}
		for (int n = -1; !error && (n = slots_next(header, n, SLOTS_ALL)) >= 0;)
			error = view_read_slot(fd, job, n, &whole);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		if (error)
			return state_refuse(error, message, size, "segment of job %s: %s", name,
			                    error == -EPROTO ? "cut short" : strerror(-error));
		if (header->sequence == after && (after % 2 == 0 || is_last))
			return 0;
		deadline_nap(&still, READ_PAUSE_NS);
	} while (!is_last);
	return state_refuse(-EBUSY, message, size, "segment of job %s: %s", name, strerror(EBUSY));
}

static bool slots_are_valid(const struct segment_file *copy)
{
	for (int n = -1; (n = slots_next(&copy->header, n, SLOTS_ALL)) >= 0;) {
		const struct segment_slot *slot = slot_of(copy, n);

		if (!memchr(slot->command, '\0', sizeof slot->command) ||
		    !memchr(slot->complaint, '\0', sizeof slot->complaint))
			return false;
	}
	return true;
}

/*
 * Makes text printable. A program's text is read by other users, root among them: it drives no
 * terminal of theirs.
 */
static void make_printable(struct segment_file *copy)
{
	printable(copy->header.labels);
	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		struct segment_device *device = &copy->header.device[i];
		printable(device->uuid);
		printable(device->pci_bus_id);
		printable(device->name);
	}
	printable(copy->header.shared_by);
	for (int n = -1; (n = slots_next(&copy->header, n, SLOTS_ALL)) >= 0;) {
		printable(slot_of(copy, n)->command);
		printable_lines(slot_of(copy, n)->complaint);
	}
}

/* Reads a checked and repaired copy of the job's segment. Returns 0, or a negative errno and
 * message. */
static int read_copy(int directory, const char *job, struct job_copy *read, char *message,
                     size_t size)
{
	struct segment_file *copy = &read->file;
	uint64_t file_size = 0;
	struct stat found;
	int fd = segment_open(directory, job, O_RDONLY, &copy->header, &file_size, message, size);
	if (fd < 0)
		return fd;
	int error = file_status_of(fd, &found) != 0 ? -errno : 0;
	read->owner = found.st_uid;
	if (!error &&
	    (copy->header.version != SEGMENT_VERSION_BEFORE || before_read(fd, job, copy) != 0))
		error = view_read_still(fd, job, read, message, size);
	close(fd);
	if (!error && !slots_are_valid(copy))
		error = state_refuse(-EPROTO, message, size, "segment of job %s is damaged", job);
	if (!error) {
		segment_repair(copy);
		make_printable(copy);
	}
	return error;
}

int segment_read(const char *job, struct segment_view *view, char *message, size_t size)
{
	if (directory_check_name(job) != 0)
		return state_refuse(-EINVAL, message, size, "not a job name: %s", job ? job : "");
	/* as large as a job can be; parts that are not read have no pages */
	struct job_copy *copy = mmap(NULL, sizeof *copy, PROT_READ | PROT_WRITE,
	                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (copy == MAP_FAILED)
		return state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	int directory = directory_open(0, message, size);
	int error = directory < 0 ? directory : read_copy(directory, job, copy, message, size);
	if (directory >= 0)
		close(directory);
	if (!error && summary_of(copy, view) != 0)
		error = state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	munmap(copy, sizeof *copy);
	return error;
}

void segment_view_free(struct segment_view *view)
{
	if (view)
		free(view->process);
	free(view);
}
