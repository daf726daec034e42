/* SPDX-License-Identifier: MIT */
/*
 * The status file: its contents, and pushing it.
 *
 * Runs inside the user's process: no more than some kilobytes on the stack, a new file and a
 * rename. A pipe or a device is written into without waiting; a link that another user put there is
 * not followed (core/base/target.h).
 */
#include "core/pages/status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/shared_file.h"
#include "core/base/target.h"
#include "core/state/layout.h"

/* --- its contents --- */

/*
 * Writes "0000:3B:00.0" without its domain and in lower case, as AntMan names a GPU. It is data of
 * another process, but no character in it has to be escaped.
 */
static void short_pci_bus_id(const char given[16], char name[16])
{
	char id[17] = "";
	memcpy(id, given, 16);
	const char *colon = strchr(id, ':');
	bool has_domain = colon && strchr(colon + 1, ':');

	snprintf(name, 16, "%s", has_domain ? colon + 1 : id);
	for (char *c = name; *c; c++)
		*c = (char)(isxdigit((unsigned char)*c) || *c == ':' || *c == '.'
		                ? tolower((unsigned char)*c)
		                : '?');
}

static size_t format_device(const struct status_device *device, char *text, size_t size)
{
	const int on_device = SEGMENT_ON_DEVICE, on_host = SEGMENT_ON_HOST;
	char name[16];

	short_pci_bus_id(device->pci_bus_id, name);
	/* each charge is for memory in use, so the memory in use is AntMan's stable figure */
	return (size_t)snprintf(
	    text, size,
	    "\"%s\":{\"deviceMemUsedMax\":%" PRIu64 ",\"deviceMemUsedMin\":%" PRIu64
	    ",\"deviceMemPoolSize\":%" PRIu64 ",\"deviceMemStable\":%" PRIu64
	    ",\"hostMemUsedMax\":%" PRIu64 ",\"hostMemUsedMin\":%" PRIu64
	    ",\"hostMemPoolSize\":%" PRIu64 ",\"swapReason\":\"%s\",\"deviceMemUsedNvidia\":-1}",
	    name, device->peak[on_device], device->used[on_device], device->charged[on_device],
	    device->used[on_device], device->peak[on_host], device->used[on_host],
	    device->charged[on_host], device->has_spilled ? "OOM" : "");
}

/*
 * Writes how long a step takes. AntMan's graph is here the sequence that a job repeats on a GPU.
 * Writes nothing where no steps are known.
 */
static size_t format_steps(const struct status *status, char *text)
{
	uint64_t longest_ns = 0;
	char *at = stpcpy(text, ",\"Durations\":{");

	for (int i = 0; i < status->count && i < SEGMENT_DEVICES; i++) {
		uint64_t step_ns = status->device[i].step_ns;
		if (!step_ns)
			continue;
		at += sprintf(at, "%s\"graph_%d\":%" PRIu64, longest_ns ? "," : "", i,
		              step_ns / 1000);
		if (step_ns > longest_ns)
			longest_ns = step_ns;
	}
	if (!longest_ns)
		return 0;
	at += sprintf(at, "},\"miniBatchDuration\":%" PRIu64, longest_ns / 1000);
	return (size_t)(at - text);
}

size_t status_format(const struct status *status, char text[STATUS_TEXT_MAX])
{
	char *at = stpcpy(text, "{\"gpuUsageInfo\":{");

	for (int i = 0; i < status->count && i < SEGMENT_DEVICES; i++) {
		const struct status_device *device = &status->device[i];
		if (i > 0)
			*at++ = ',';
		at += format_device(device, at, (size_t)(text + STATUS_TEXT_MAX - at));
	}
	*at++ = '}';
	at += format_steps(status, at);
	at = stpcpy(at, "}\n");
	return (size_t)(at - text);
}

/* --- pushing it --- */

static void add_slot(const struct segment_file *file, int slot, int device,
                     struct status_device *sum)
{
	const struct segment_books *books = books_of(file, slot, device);
	uint64_t step_ns = statistics_get(&books->counters.step_ns);

	if (statistics_get(&books->counters.spill_reason) != SPILL_NONE)
		sum->has_spilled = true;
	for (int tier = 0; tier < SEGMENT_TIERS; tier++)
		sum->peak[tier] = quota_peak(sum->peak[tier], &books->ledger, tier);
	if (slot_state(&file->header, slot) != SLOT_LIVE)
		return;
	for (int tier = 0; tier < SEGMENT_TIERS; tier++)
		sum->used[tier] += ledger_charged(&books->ledger, tier);
	if (step_ns > sum->step_ns)
		sum->step_ns = step_ns;
}

static void read_status(const struct segment_file *file, struct status *status)
{
	const struct segment_header *header = &file->header;

	memset(status, 0, sizeof *status);
	status->count = devices_of(header);
	for (int i = 0; i < status->count && i < SEGMENT_DEVICES; i++) {
		struct status_device *device = &status->device[i];
		memcpy(device->pci_bus_id, header->device[i].pci_bus_id, sizeof device->pci_bus_id);
		device->has_spilled =
		    statistics_get(&header->ended[i].counters.spill_reason) != SPILL_NONE;
		for (int tier = 0; tier < SEGMENT_TIERS; tier++) {
			device->peak[tier] = header->peak[i][tier];
			device->charged[tier] = quota_charged(file, i, (enum segment_tier)tier);
		}
		for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;)
			add_slot(file, n, i, device);
	}
}

/* Returns whether the mean has changed: by a hundredth or more, or from or to not being known. */
static bool has_moved(uint64_t mean, uint64_t told)
{
	uint64_t difference = mean > told ? mean - told : told - mean;
	return (mean == 0) != (told == 0) || (difference && difference >= told / 100);
}

static bool status_is_news(const struct status *now, const struct status *told)
{
	if (now->count != told->count)
		return true;
	for (int i = 0; i < now->count && i < SEGMENT_DEVICES; i++) {
		const struct status_device *one = &now->device[i], *other = &told->device[i];
		if (memcmp(one->used, other->used, sizeof one->used) != 0 ||
		    memcmp(one->peak, other->peak, sizeof one->peak) != 0 ||
		    memcmp(one->charged, other->charged, sizeof one->charged) != 0 ||
		    one->has_spilled != other->has_spilled ||
		    has_moved(one->step_ns, other->step_ns))
			return true;
	}
	return false;
}

/* By then the process that pushed has renamed the file, too. */
#define RENAMED_NS 1000000000ull

/* Returns whether the file says that. While a file is being replaced the answer is unknown. */
static bool stands_there(const struct status *status, const char *path)
{
	char text[STATUS_TEXT_MAX], found[512];
	size_t length = status_format(status, text), done = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t got = 0;

	if (fd < 0)
		return false;
	while ((got = pread(fd, found, sizeof found, (off_t)done)) > 0) {
		if ((size_t)got > length - done || memcmp(found, text + done, (size_t)got) != 0)
			break;
		done += (size_t)got;
	}
	close(fd);
	return got == 0 && done == length;
}

/*
 * Returns whether another process of the job has pushed other contents, which that process cannot
 * know to be wrong by now.
 */
static bool is_pushed_over(const struct status *now, uint64_t pushed_ns,
                           const struct target *target, struct status *told)
{
	if (pushed_ns == told->pushed_ns || clock_now() - pushed_ns < RENAMED_NS)
		return false;
	/* text in a pipe cannot be read back */
	if (target->kind != TARGET_STREAM && !stands_there(now, target->path))
		return true;
	told->pushed_ns = pushed_ns;
	return false;
}

/* Returns whether this process is to push it now. last: when it was pushed last. */
static bool is_time(struct segment_header *header, uint64_t last, uint64_t now)
{
	return (last == 0 || now - last >= STATUS_PUSH_NS) &&
	       atomic_compare_exchange_strong(&header->status_ns, &last, now);
}

/*
 * Writes into a pipe or a device: a line at a time, as far as it takes them. The helper thread
 * blocks SIGPIPE as every signal.
 */
static int write_into(const struct target *target, const char *text, size_t length)
{
	int fd = target_open(target), error = 0;
	ssize_t written;

	if (fd < 0)
		return fd;
	written = write(fd, text, length);
	if (written != (ssize_t)length)
		error = written < 0 ? -errno : -EIO;
	close(fd);
	return error;
}

/* Replaces the file by one that all users may read, with any umask. */
static int status_replace(const char *path, int slot, const char *text, size_t length)
{
	char unfinished[PATH_MAX];
	int length_of_path =
	    snprintf(unfinished, sizeof unfinished, "%s.new-%d-%d", path, (int)getpid(), slot);

	if (length_of_path < 0 || (size_t)length_of_path >= sizeof unfinished)
		return -ENAMETOOLONG;
	return shared_file_put(AT_FDCWD, unfinished, path, 0644, text, length);
}

static int write_to(const struct target *target, int slot, const char *text, size_t length)
{
	switch (target->kind) {
	case TARGET_DESCRIPTOR:
		return -EINVAL; /* the program's own */
	case TARGET_STREAM:
		return write_into(target, text, length);
	default:
		return status_replace(target->path, slot, text, length);
	}
}

int status_push(struct segment *segment, const char *path, struct status *told)
{
	struct target target;
	struct segment_header *header = &segment->file->header;
	uint64_t pushed_ns = atomic_load(&header->status_ns);
	char text[STATUS_TEXT_MAX];
	struct status now;

	read_status(segment->file, &now);
	bool is_known = !status_is_news(&now, told);
	if (is_known && pushed_ns == told->pushed_ns)
		return 0;
	int error = target_find(path, &target);
	if (is_known && (error || !is_pushed_over(&now, pushed_ns, &target, told)))
		return 0;
	now.pushed_ns = clock_now();
	if (!is_time(header, pushed_ns, now.pushed_ns))
		return 0;
	size_t length = status_format(&now, text);
	if (!error)
		error = write_to(&target, segment->number, text, length);
	if (!error)
		*told = now;
	return error;
}
