/*
 * What those who look see: a copy of the segment, taken by pread, made consistent and summed up.
 *
 * Nothing is mapped (a truncated file would be SIGBUS) and nothing written. Slots come and go under
 * header.sequence, so a copy during which it moved is taken again; one left odd by a killed or
 * stopped process stands still, and the copy is repaired as the next holder of the lock would
 * repair the file. A counter is an aligned word, which the kernel copies whole; those that belong
 * together are read again until no change of them was under way, or so often that its process
 * must be stopped or killed within one. This is the one patience that is counted in looks and is no
 * deadline: where the machine stands still between two looks a writer has had no time to end its
 * change, so a deadline would take a living writer for a dead one; and whoever waits here has only
 * asked for figures. A process lives
 * when its slot's futex word says so (slot_owner_lives): the mutex's own truth, readable without a
 * trylock, and unlike pids and record locks right across pid namespaces, fork and closed
 * descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/printable.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/refuse.h"
#include "core/state/verdict.h"

uint64_t segment_view_naps = 500;

/* What was read of a job. */
struct job_copy {
	struct segment_file file;
	uint16_t changing[SEGMENT_SLOTS]; /* a bit per device whose facts could not be had whole */
	struct ledger_copy ledger[SEGMENT_SLOTS]; /* of the live ones, of the device at hand */
};

enum {
	READ_TRIES = 50,
	READ_FACTS_TRIES = 100,
	READ_PAUSE_NS = 1000000,
	READ_COUNTERS_PAUSE_NS = 20000
};

/* 0, or a negative errno; -EPROTO: shorter than asked. */
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

/* Of one process on one device: as many changes had ended before the counters were read as had begun thereafter. */
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

/* Counters that belong together, together. The rest of the file was read. */
static int read_whole_counters(int fd, struct segment_file *copy, uint64_t *naps)
{
	uint32_t devices = atomic_load(&copy->header.device_count);

	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct segment_slot *slot = &copy->slot[i];
		for (uint32_t d = 0; slot->state == SLOT_LIVE && d < devices; d++) {
			off_t at = (const char *)&slot->counters[d] - (const char *)copy;
			bool is_whole = false;
			for (;;) {
				int error = read_counters(fd, at, &slot->counters[d], &is_whole);
				if (error)
					return error;
				if (is_whole || !*naps)
					break;
				(*naps)--;
				deadline_sleep(READ_COUNTERS_PAUSE_NS);
			}
		}
	}
	return 0;
}

/* The facts of one ledger, as they were at one time, and then its words. *is_whole: false where the former could not be had. */
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
		atomic_store(&ledger->facts.turn, before);
		*is_whole = !error && before == after;
	}
	return error ? error
	             : read_fully(fd, ledger->charged, sizeof *ledger - (size_t)words, at + words);
}

static int read_ledgers(int fd, struct job_copy *job)
{
	struct segment_file *copy = &job->file;
	uint32_t devices = atomic_load(&copy->header.device_count);

	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct segment_slot *slot = &copy->slot[i];

		job->changing[i] = 0;
		for (uint32_t d = 0; slot->state == SLOT_LIVE && d < devices; d++) {
			off_t at = (const char *)&slot->ledger[d] - (const char *)copy;
			bool is_whole;
			int error = read_ledger(fd, at, &slot->ledger[d], &is_whole);

			if (error)
				return error;
			job->changing[i] |= (uint16_t)(!is_whole << d);
		}
	}
	return 0;
}

/* The whole file; slots neither came nor went meanwhile. */
static int read_still(int fd, struct job_copy *job)
{
	struct segment_file *copy = &job->file;
	const off_t at = offsetof(struct segment_header, sequence);
	uint64_t before, after, naps = segment_view_naps;

	for (int tries = 0;; tries++) {
		int error = read_fully(fd, &before, sizeof before, at);
		if (!error)
			error = read_fully(fd, copy, sizeof *copy, 0);
		bool has_devices = atomic_load(&copy->header.device_count) <= SEGMENT_DEVICES;
		if (!error && has_devices)
			error = read_whole_counters(fd, copy, &naps);
		if (!error && has_devices)
			error = read_ledgers(fd, job);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		if (error)
			return error;
		bool last = tries == READ_TRIES;
		if (before == after && (before % 2 == 0 || last))
			return 0;
		if (last)
			return -EBUSY;
		deadline_sleep(READ_PAUSE_NS);
	}
}

static bool slots_are_valid(const struct segment_file *copy)
{
	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		const struct segment_slot *slot = &copy->slot[i];
		if (slot->state > SLOT_DRAINING ||
		    !memchr(slot->command, '\0', sizeof slot->command) ||
		    !memchr(slot->complaint, '\0', sizeof slot->complaint))
			return false;
	}
	return true;
}

/* What a program wrote is read by others, root among them: it drives no terminal of theirs. */
static void make_printable(struct segment_file *copy)
{
	printable(copy->header.labels);
	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		struct segment_device *device = &copy->header.device[i];
		printable(device->uuid);
		printable(device->pci_bus_id);
		printable(device->name);
	}
	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		printable(copy->slot[i].command);
		printable_lines(copy->slot[i].complaint);
	}
}

/* A checked and repaired copy of the job's segment. */
static int read_copy(int directory, const char *job, struct job_copy *read, char *message,
                     size_t size)
{
	struct segment_file *copy = &read->file;
	uint64_t file_size = 0;
	int fd = segment_open(directory, job, O_RDONLY, &copy->header, &file_size, message, size);
	if (fd < 0)
		return fd;
	/* checked before the rest is read, and again after: it may have changed */
	int error = segment_check(&copy->header, file_size, job, message, size);
	if (!error) {
		error = read_still(fd, read);
		if (error)
			state_refuse(error, message, size, "segment of job %s: %s", job,
			             error == -EPROTO ? "cut short" : strerror(-error));
		else
			error = segment_check(&copy->header, file_size, job, message, size);
	}
	close(fd);
	if (!error && !slots_are_valid(copy))
		error = state_refuse(-EPROTO, message, size, "segment of job %s is damaged", job);
	if (!error) {
		segment_repair(copy);
		make_printable(copy);
	}
	return error;
}

/* Free, live or draining, though nobody may have noticed a death yet. */
static enum segment_slot_state state_now(const struct segment_file *copy,
                                         const struct segment_slot *slot, bool this_boot)
{
	uint64_t now = clock_now();

	if (slot->state == SLOT_FREE || !this_boot)
		return SLOT_FREE;
	if (slot->state == SLOT_LIVE) {
		if (slot_owner_lives(slot))
			return SLOT_LIVE;
		return slot_drain_left(&copy->header, slot, now) > 0 ? SLOT_DRAINING : SLOT_FREE;
	}
	return slot_is_drained(slot, now) ? SLOT_FREE : SLOT_DRAINING;
}

/* Of one more than there are, whatever stands in the file. */
static int counted(uint32_t count)
{
	return count && count <= (uint32_t)INT_MAX ? (int)count - 1 : -1;
}

static void add_process(struct segment_view *view, const struct segment_slot *slot,
                        enum segment_slot_state state)
{
	struct segment_process *process = &view->process[view->process_count++];
	process->state = state;
	process->pid = slot->pid;
	memcpy(process->command, slot->command, sizeof process->command);
	process->started_ns = slot->started_ns;
	process->override_hash = slot->override_hash;
	process->threads = state == SLOT_LIVE ? counted(slot->threads) : -1;
	process->contexts = state == SLOT_LIVE ? counted(slot->contexts) : -1;
	memcpy(process->complaint, slot->complaint, sizeof process->complaint);
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		for (int s = 0; s < SEGMENT_SIDES; s++) {
			process->charged[d][s] = slot->ledger[d].charged[s];
			view->charged[d][s] += slot->ledger[d].charged[s];
		}
}

/* What is charged was read later, and may be more. */
static uint64_t peak(const struct segment_header *header, const struct segment_view *view,
                     int device, enum segment_side side)
{
	uint64_t was = header->peak[device][side], is = view->charged[device][side];

	return is > was ? is : was;
}

/* --- what is shown --- */

static void show_counters(struct statistics *shown, const struct counters *counters)
{
#define X(name, how, unit, meaning) statistics_set(&shown->name, statistics_get(&counters->name));
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
}

static void show_process(struct statistics *shown, const struct segment_slot *slot, int device,
                         const struct ledger_copy *ledger, const struct standing *standing)
{
	struct verdict verdict = verdict_of(ledger, 1, standing);

	show_counters(shown, &slot->counters[device]);
	show_words(shown, ledger);
	show_verdict(shown, &verdict);
	statistics_set(&shown->device_peak, ledger->peak[SEGMENT_ON_DEVICE]);
	statistics_set(&shown->host_peak, ledger->peak[SEGMENT_ON_HOST]);
}

/* What is known of a job without processes: the settings of the last one, which holds nothing. */
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
	struct ledger_copy copy = ledger_read(&job->file.slot[slot].ledger[device]);

	if (job->changing[slot] & 1u << device) {
		copy.is_whole = false;
		copy.facts = (struct facts){0};
	}
	return copy;
}

/* Shows one device: of each process, and of the job. */
static void show_device(struct job_copy *job, struct segment_view *view, int d,
                        const enum segment_slot_state *state)
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
	for (int i = 0; i < SEGMENT_SLOTS; i++)
		if (job->file.slot[i].state != SLOT_FREE && state[i] != SLOT_LIVE)
			totals_add_ended(&known, &job->file.slot[i], d);
	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		const struct segment_slot *slot = &job->file.slot[i];

		if (state[i] != SLOT_LIVE)
			continue;
		if (!live)
			totals_forget_settings(&known.counters);
		job->ledger[live] = copy_ledger(job, i, d);
		totals_add_live(&known.counters, &slot->counters[d]);
		show_words(total, &job->ledger[live++]);
	}
	verdict = live ? verdict_of(job->ledger, live, &standing)
	               : verdict_of_ended(&known.facts, &standing);
	/* who has older settings is judged by the newest */
	standing.generation = verdict.generation;
	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct ledger_copy ledger = copy_ledger(job, i, d);

		if (state[i] != SLOT_FREE)
			show_process(&view->process[shown++].device[d], &job->file.slot[i], d,
			             &ledger, &standing);
	}
	show_counters(total, &known.counters);
	show_verdict(total, &verdict);
	statistics_set(&total->device_peak, peak(header, view, d, SEGMENT_ON_DEVICE));
	statistics_set(&total->host_peak, peak(header, view, d, SEGMENT_ON_HOST));
}

/* What a process that lives has open, or may come to, although its owner is gone; the next look of one of them says. */
static void add_orphaned(struct segment_view *view, const struct segment_file *copy,
                         const enum segment_slot_state *state)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++) {
		const struct segment_export *e = &copy->export[i];
		uint32_t owner = e->owner;

		if (!e->bytes || e->device >= SEGMENT_DEVICES || owner > SEGMENT_SLOTS ||
		    (owner && state[owner - 1] != SLOT_FREE))
			continue;
		view->orphaned[e->device] += e->bytes;
		view->charged[e->device][SEGMENT_ON_DEVICE] += e->bytes;
	}
}

static void summarise(struct job_copy *job, struct segment_view *view)
{
	const struct segment_file *copy = &job->file;
	const struct segment_header *header = &copy->header;
	bool this_boot = segment_is_of_this_boot(header);
	enum segment_slot_state state[SEGMENT_SLOTS];
	int live = 0;

	memset(view, 0, sizeof *view);
	memcpy(view->job, header->job, sizeof view->job);
	memcpy(view->labels, header->labels, sizeof view->labels);
	view->is_unnamed = header->is_unnamed != 0;
	memcpy(view->shared_by, header->shared_by, sizeof view->shared_by);
	view->token = header->token;
	view->created_ns = header->created_ns;
	view->device_count = (int)header->device_count;
	memcpy(view->device, header->device, sizeof view->device);

	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		state[i] = state_now(copy, &copy->slot[i], this_boot);
		live += state[i] == SLOT_LIVE;
		if (state[i] != SLOT_FREE)
			add_process(view, &copy->slot[i], state[i]);
	}
	if (live)
		add_orphaned(view, copy, state);
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		show_device(job, view, d, state);
	view->ended_ns = live ? 0 : header->seen_ns;
}

static struct job_copy *new_copy(void)
{
	return aligned_alloc(_Alignof(struct job_copy), sizeof(struct job_copy));
}

int segment_read(const char *job, struct segment_view *view, char *message, size_t size)
{
	if (directory_check_name(job) != 0)
		return state_refuse(-EINVAL, message, size, "not a job name: %s", job ? job : "");
	struct job_copy *copy = new_copy();
	if (!copy)
		return state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	int error = 0, directory = directory_open(0, message, size);
	if (directory < 0)
		error = directory;
	if (!error) {
		error = read_copy(directory, job, copy, message, size);
		close(directory);
	}
	if (!error)
		summarise(copy, view);
	free(copy);
	return error;
}

int segment_list(int (*found)(void *cookie, const char *job), void *cookie)
{
	int fd = directory_open(0, NULL, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return segment_list_in(fd, found, cookie);
}

int segment_list_in(int fd, int (*found)(void *cookie, const char *job), void *cookie)
{
	static const char ending[] = ".segment";
	int count = 0;
	DIR *directory = fdopendir(fd);
	if (!directory) {
		int error = -errno;
		close(fd);
		return error;
	}
	for (const struct dirent *entry; (entry = readdir(directory));) {
		size_t length = strlen(entry->d_name), tail = sizeof ending - 1;
		char job[SEGMENT_FILE_NAME_MAX];
		if (length <= tail || length >= sizeof job ||
		    strcmp(entry->d_name + length - tail, ending) != 0)
			continue;
		segment_copy_text(job, length - tail + 1, entry->d_name);
		if (directory_check_name(job) != 0)
			continue;
		count++;
		if (found(cookie, job) != 0)
			break;
	}
	closedir(directory);
	return count;
}
