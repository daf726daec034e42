/* SPDX-License-Identifier: MIT */
/*
 * A process's hold on its job's segment: joining, leaving, and its facts.
 *
 * Runs inside the user's process: descriptors are CLOEXEC and closed again, every wait has an end.
 */
#include "core/state/segment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/printable.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/ring_files.h"

enum { COMMAND_MAX = sizeof((struct segment_slot *)0)->command };

/* Reads how the process was called, as "python3 train.py": the program without its folder, and
 * arguments; by /proc, else the program alone. */
static void join_read_command(char command[COMMAND_MAX])
{
	char line[512];
	size_t length = segment_read_line("/proc/self/cmdline", line, sizeof line - 1);
	while (length && line[length - 1] == '\0')
		length--;
	line[length] = '\0';
	const char *folder_end = strrchr(line, '/'); /* of the first string */
	size_t start = folder_end ? (size_t)(folder_end + 1 - line) : 0;
	for (size_t i = start; i < length; i++)
		if (line[i] == '\0')
			line[i] = ' ';
	printable(line + start);
	segment_copy_text(command, COMMAND_MAX,
	                  length ? line + start : program_invocation_short_name);
}

/* The process that joins a job, beyond the job's name. */
struct joiner {
	bool is_unnamed;
	const char *labels, *shared_by;
	char run[sizeof((struct segment_header *)0)->run];
	struct segment *segment; /* takes a process slot in this one */
	int directory, fd;
	uint64_t pid_space; /* slot_pid_space() */
	const char *job;
	char *message; /* why not, of so many bytes */
	size_t size;
};

static int (*run_in_owner)(int (*take)(void *of),
                           void *of); /* NULL: the joining thread is the owner */
static char prepared[COMMAND_MAX];    /* "": not read yet */

void segment_prepare(void)
{
	join_read_command(prepared);
}

void segment_owner(int (*run)(int (*take)(void *of), void *of))
{
	run_in_owner = run;
}

/*
 * Returns whether the next process begins another run. No process lives; it may still belong to the
 * run of those that did.
 */
static bool is_another_run(const struct segment_header *header, const struct joiner *joiner)
{
	return !joiner->run[0] || strcmp(joiner->run, header->run) != 0;
}

/*
 * Begins a run: counters of earlier processes belong to an earlier one. Memory that still drains
 * stays charged.
 */
static void begin_run(struct segment_file *file, const struct joiner *joiner)
{
	struct segment_header *header = &file->header;
	bool draining = false;

	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0; draining = true)
		for (int d = 0; d < devices_of(header); d++) {
			memset(&books_of(file, n, d)->counters, 0, sizeof(struct counters));
			ledger_forget_peak(&books_of(file, n, d)->ledger);
		}
	if (!draining)
		atomic_store(&header->device_count, 0);
	memset(header->ended, 0, sizeof header->ended);
	memset(header->peak, 0, sizeof header->peak);
	memset(header->driver_peak, 0, sizeof header->driver_peak);
	memset(header->limit_most, 0, sizeof header->limit_most);
	segment_copy_text(header->labels, sizeof header->labels, joiner->labels);
	printable(header->labels);
	segment_copy_text(header->run, sizeof header->run, joiner->run);
	header->created_ns = clock_of_day();
}

/* The generations of a job's settings begin anew with its life. Those of an earlier life, which
 * dead slots and the ended keep, would count as newer. */
static void forget_settings(struct segment_file *file)
{
	struct segment_header *header = &file->header;

	memset(header->applied, 0, sizeof header->applied);
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		header->ended[d].facts.generation = 0;
	for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;)
		for (int d = 0; d < devices_of(header); d++)
			ledger_forget_facts(&books_of(file, n, d)->ledger);
}

/* Releases orphaned memory: no process lives, so none of the job has it. */
static void join_forget_orphans(struct segment_file *file)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (export_is_orphan(&file->export[i]))
			atomic_store(&file->export[i].bytes, 0);
}

/* Says that a process of the job runs; any thread may. */
static void join_note_polled(struct segment_header *header)
{
	atomic_store(&header->seen_ns, clock_of_day());
	atomic_store(&header->polled_ns, clock_now());
}

/* Begins a job's life: no process that was in it lives. */
static void begin_job(struct segment_file *file, const struct joiner *joiner)
{
	struct segment_header *header = &file->header;
	uint32_t lanes = atomic_load(&file->lanes.count);

	atomic_store(&header->is_unnamed, joiner->is_unnamed);
	segment_copy_text(header->shared_by, sizeof header->shared_by, joiner->shared_by);
	forget_settings(file);
	memset(file->lanes.lane, 0, (lanes < LANES_MAX ? lanes : LANES_MAX) * sizeof(struct lane));
	memset(&file->lanes, 0, offsetof(struct lanes, lane));
	/* A new segment has none: its pages are left untouched. */
	if (header->created_ns) {
		join_forget_orphans(file);
		quota_recount(file);
	}
}

/* Enters the slot that was taken; under the lock. */
static void join_enter(struct segment *segment, const struct joiner *joiner)
{
	struct segment_file *file = segment->file;

	segment->slot = slot_of(file, segment->number);
	segment->own = books_of(file, segment->number, 0);
	segment_change_begin(&file->header);
	if (segment->begins_job)
		begin_job(file, joiner);
	segment->begins_run = segment->begins_job && is_another_run(&file->header, joiner);
	if (segment->begins_run)
		begin_run(file, joiner);
	segment->slot->pid = getpid();
	segment->slot->pid_space = joiner->pid_space;
	segment->slot->started_ns = clock_of_day();
	memcpy(segment->slot->command, prepared, sizeof prepared);
	join_note_polled(&file->header);
	slots_enter(file, segment->number);
	segment_change_end(&file->header);
}

/* Takes a slot. Where those that have pages are all taken there are more of them first.
 * Returns -ESTALE where the segment was removed after it was opened. */
static int take_slot_in(struct segment *segment, const struct joiner *joiner)
{
	struct segment_file *file = segment->file;
	struct segment_header *header = &file->header;
	uint32_t rows = 0, devices = 0;
	int error;

	while ((error = segment_lock(file)) == 0) {
		bool is_removed = atomic_load(&header->is_removed);
		segment->begins_job = !slots_any_lives(file);
		segment->number = is_removed ? -1 : slots_take(file);
		if (!is_removed && segment->number < 0 && rows == atomic_load(&header->rows) &&
		    devices == atomic_load(&header->device_count)) {
			atomic_store(&header->rows, rows + 1);
			segment->number = slots_take(file);
		}
		if (segment->number >= 0)
			join_enter(segment, joiner);
		rows = atomic_load(&header->rows);
		devices = atomic_load(&header->device_count);
		segment_unlock(file);
		if (is_removed)
			return -ESTALE;
		if (segment->number >= 0)
			return 0;
		if (rows >= SEGMENT_ROWS)
			return -EUSERS;
		/* Without the lock, under which no process calls the system. */
		error = segment_reserve_row(joiner->fd, rows, devices);
		if (error)
			return error;
	}
	return error;
}

/*
 * Opens the job's segment or makes one. The job lock is for files alone. A slot is taken without
 * it, because another thread may do that. In a crowd of processes all would wait until each of
 * these threads has run.
 */
static int open_segment(struct joiner *joiner)
{
	char path[PATH_MAX];
	int lock = segment_job_lock(joiner->directory, joiner->job);

	if (lock < 0)
		return state_refuse(
		    lock, joiner->message, joiner->size, "%s/.lock: job %s cannot be locked: %s",
		    directory_path(path, sizeof path), joiner->job, strerror(-lock));
	joiner->fd = segment_open_or_create(joiner->directory, joiner->job, joiner->is_unnamed,
	                                    &joiner->segment->file, joiner->message, joiner->size);
	close(lock);
	return joiner->fd < 0 ? joiner->fd : 0;
}

static void close_segment(struct joiner *joiner)
{
	if (joiner->fd >= 0)
		close(joiner->fd);
	if (joiner->segment->file)
		munmap(joiner->segment->file, sizeof *joiner->segment->file);
	joiner->segment->file = NULL;
	joiner->fd = -1;
}

/* Takes a slot, in a new segment where the job has ended since its segment was opened. */
static int join_take_slot(void *of)
{
	struct joiner *joiner = of;
	char path[PATH_MAX];
	int error;

	if (!prepared[0])
		segment_prepare();
	joiner->pid_space = slot_pid_space();
	while ((error = take_slot_in(joiner->segment, joiner)) == -ESTALE) {
		close_segment(joiner);
		error = open_segment(joiner);
		if (error)
			return error;
	}
	prepared[0] = '\0';
	if (!error)
		return 0;
	segment_path(joiner->job, path, sizeof path);
	if (error == -EUSERS)
		return state_refuse(error, joiner->message, joiner->size,
		                    "%s: has %d processes already, expected fewer", path,
		                    SEGMENT_SLOTS);
	return state_refuse(error, joiner->message, joiner->size, "%s: %s", path, strerror(-error));
}

static void free_segment(struct segment *segment)
{
	free(segment->directory);
	free(segment->node);
	free(segment);
}

static int state_join_in(struct joiner *joiner, struct segment **result)
{
	char path[PATH_MAX];
	struct segment *segment = calloc(1, sizeof *segment);
	int error = -ENOMEM;

	if (!segment)
		return error;
	joiner->segment = segment;
	joiner->fd = -1;
	segment->began_ns = clock_now();
	segment->directory = strdup(directory_path(path, sizeof path));
	segment->node = strdup(directory_of_node(path, sizeof path));
	if (segment->directory && segment->node)
		error = open_segment(joiner);
	if (!error)
		error =
		    run_in_owner ? run_in_owner(join_take_slot, joiner) : join_take_slot(joiner);
	if (error) {
		close_segment(joiner);
		free_segment(segment);
		return error;
	}
	close(joiner->fd);
	if (!run_in_owner)
		segment_remove_rings(segment);
	/* Settings of a job without a name were for processes that have died. */
	if (joiner->is_unnamed && segment->begins_job)
		segment_remove_override(joiner->directory, joiner->job);
	*result = segment;
	return 0;
}

/* Returns whether the kernel will free the slot when this thread dies: it is asked, because
 * glibc does not say that it was refused (set_robust_list). Where nothing is known (qemu-user) it
 * is believed. */
static bool death_will_be_seen(void)
{
	void *robust_list = NULL;
	size_t length = 0;

	return syscall(SYS_get_robust_list, 0, &robust_list, &length) != 0 || robust_list;
}

static int join_join(struct joiner *joiner, const char *run, struct segment **segment)
{
	const char *job = joiner->job;
	int error;

	if (directory_check_name(job) != 0)
		return state_refuse(-EINVAL, joiner->message, joiner->size,
		                    "job name \"%s\": expected 1 to 63 of A-Z a-z 0-9 . _ -, not "
		                    "beginning with a dot",
		                    job ? job : "");
	if (!death_will_be_seen())
		return state_refuse(
		    -ENOTSUP, joiner->message, joiner->size,
		    "job %s: the kernel would not free this process's place when it is "
		    "killed (set_robust_list is refused)",
		    job);
	joiner->directory = directory_open(1, joiner->message, joiner->size);
	if (joiner->directory < 0)
		return joiner->directory;
	segment_copy_text(joiner->run, sizeof joiner->run, run ? run : "");
	error = state_join_in(joiner, segment);
	close(joiner->directory);
	return error;
}

int segment_join(const char *job, const char *labels, const char *run, struct segment **segment,
                 char *message, size_t size)
{
	struct joiner joiner = {.job = job,
	                        .labels = labels ? labels : "",
	                        .shared_by = "",
	                        .message = message,
	                        .size = size};

	return join_join(&joiner, run, segment);
}

int segment_join_unnamed(const char *job, const char *labels, const char *run,
                         const char *shared_by, struct segment **segment, char *message,
                         size_t size)
{
	struct joiner joiner = {.is_unnamed = true,
	                        .job = job,
	                        .labels = labels ? labels : "",
	                        .shared_by = shared_by,
	                        .message = message,
	                        .size = size};

	return join_join(&joiner, run, segment);
}

static bool is_private(const struct segment *segment)
{
	return !segment->directory;
}

struct segment *segment_make_private(int devices)
{
	size_t size = offsetof(struct segment_file, row[0].books[devices]);
	struct segment *segment = calloc(1, sizeof *segment);
	void *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!segment || file == MAP_FAILED) {
		free(segment);
		if (file != MAP_FAILED)
			munmap(file, size);
		return NULL;
	}
	segment->file = file;
	segment->file->header.size = size; /* it ends behind the devices of its first row */
	segment->slot = slot_of(file, 0);
	segment->own = books_of(file, 0, 0);
	atomic_store(&segment->file->header.rows, 1);
	(void)segment_mutex_init(&segment->file->header.lock, false);
	return segment;
}

void segment_leave(struct segment *segment)
{
	if (!segment)
		return;
	struct segment_file *file = segment->file;
	if (is_private(segment)) {
		munmap(file, file->header.size);
		free(segment);
		return;
	}
	/* without the lock the slot is left as a dead process's and drains */
	if (segment_lock(file) == 0) {
		slots_retire(file, segment->number);
		join_note_polled(&file->header);
		segment_unlock(file);
	}
	lock_robust_release(&segment->slot->life.mutex);
	munmap(file, sizeof *file);
	free_segment(segment);
}

void segment_abandon(const struct segment *segment)
{
	munmap(segment->file, sizeof *segment->file);
}

void segment_identity(const struct segment *segment, uint64_t *token, uint64_t *started_ns)
{
	*token = segment->file->header.token;
	*started_ns = segment->slot->started_ns;
}

bool segment_begins_job(const struct segment *segment, uint64_t *began_ns)
{
	*began_ns = segment->began_ns;
	return segment->begins_job;
}

void segment_poll(struct segment *segment)
{
	if (segment_lock(segment->file) != 0)
		return;
	slots_look_for_gone(segment);
	slots_probe(segment->file);
	quota_settle(segment);
	exports_settle(segment);
	join_note_polled(&segment->file->header);
	segment_unlock(segment->file);
	segment_judge_exports(segment);
}

_Atomic uint32_t *segment_bell(struct segment *segment)
{
	return &segment->file->header.bell;
}

void segment_exiting(struct segment *segment)
{
	atomic_store(&segment->slot->exiting_ns, clock_of_day());
	join_note_polled(&segment->file->header);
	if (segment->begins_run) /* one so short that no process had time for it */
		segment_remove_rings(segment);
}

static bool is_same_device(const struct segment_device *a, const struct segment_device *b)
{
	if (a->uuid[0] || b->uuid[0])
		return strncmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
	return strncmp(a->pci_bus_id, b->pci_bus_id, sizeof a->pci_bus_id) == 0;
}

/* Gives all slots that there are room for a device. */
static int reserve_device(const struct segment *segment, uint32_t rows, uint32_t device)
{
	if (is_private(segment))
		return 0;
	int fd = segment_reopen(segment), error = fd < 0 ? fd : 0;

	for (uint32_t row = 0; !error && row < rows; row++)
		error = segment_reserve_device(fd, row, device);
	if (fd >= 0)
		close(fd);
	return error;
}

int segment_device(struct segment *segment, const struct segment_device *device)
{
	struct segment_header *header = &segment->file->header;
	uint32_t rows = 0, known, has_room = 0;
	int error;

	while ((error = segment_lock(segment->file)) == 0) {
		int count = devices_of(header), index = 0;
		while (index < count && !is_same_device(&header->device[index], device))
			index++;
		known = atomic_load(&header->rows);
		if (index == count && index < SEGMENT_DEVICES &&
		    (index == 0 || (has_room == (uint32_t)index && rows == known))) {
			struct segment_device *added = &header->device[index];
			segment_change_begin(header);
			segment_copy_text(added->uuid, sizeof added->uuid, device->uuid);
			segment_copy_text(added->pci_bus_id, sizeof added->pci_bus_id,
			                  device->pci_bus_id);
			segment_copy_text(added->name, sizeof added->name, device->name);
			added->memory = device->memory;
			atomic_store(&header->device_count, (uint32_t)++count);
			segment_change_end(header);
		}
		segment_unlock(segment->file);
		if (index < count)
			return index;
		if (index >= SEGMENT_DEVICES)
			return -ENOSPC;
		/* Without the lock, as a row's. */
		rows = known;
		has_room = (uint32_t)index;
		error = reserve_device(segment, rows, has_room);
		if (error)
			return error;
	}
	return error;
}

static bool join_is_known(const struct segment *segment, int device)
{
	return device >= 0 && device < devices_of(&segment->file->header);
}

struct segment_own segment_own(struct segment *segment, int device)
{
	struct segment_books *books;

	if (!join_is_known(segment, device))
		return (struct segment_own){0};
	books = own_books(segment, device);
	return (struct segment_own){&books->counters, &books->ledger, &books->placed};
}

struct lanes *segment_lanes(struct segment *segment, int *lane)
{
	*lane = segment->number;
	return &segment->file->lanes;
}

void segment_count(struct segment *segment, int threads, int contexts)
{
	atomic_store(&segment->slot->threads, threads < 0 ? 0 : (uint32_t)threads + 1);
	atomic_store(&segment->slot->contexts, contexts < 0 ? 0 : (uint32_t)contexts + 1);
}

void segment_tell(struct segment *segment, uint64_t override_hash, unsigned int lacks,
                  const char *complaint)
{
	if (segment_lock(segment->file) == 0) {
		segment_change_begin(&segment->file->header);
		segment_copy_text(segment->slot->complaint, sizeof segment->slot->complaint,
		                  complaint);
		segment_change_end(&segment->file->header);
		segment_unlock(segment->file);
	}
	atomic_store(&segment->slot->override_hash, override_hash);
	atomic_store(&segment->slot->lacks, lacks);
}
