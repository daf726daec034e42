/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the reader of segments.
 *
 * The input changes the segment of a job that runs. Bytes 0 and 1 are its length, as a fraction of
 * the right one. Changes follow (changes.h). Nothing may crash or hang, and accepted values are
 * within their bounds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/state/directory.h"
#include "core/state/layout.h"
#include "tests/fuzz/changes.h"

static _Alignas(64) unsigned char good[1 << 20];
static struct segment_view view;
static char folder[256], path[512];
static struct changed_file file = {.good = good, .hot_size = sizeof(struct segment_header)};

static void set_up(void)
{
	static const struct segment_device gpu = {.uuid = "GPU-1", .name = "a GPU", .memory = 1};
	const char *tmp = getenv("TMPDIR");
	struct segment *segment;

	snprintf(folder, sizeof folder, "%s/fuzz-segment-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		abort();
	setenv("SPILLWAY_STATE_DIR", folder, 1);
	segment_view_patience_ns = 0; /* nobody writes */
	if (segment_join("fuzz", "a=b", "", &segment, NULL, 0) != 0 ||
	    segment_device(segment, &gpu) != 0)
		abort();
	if (directory_segment_path("fuzz", path, sizeof path) != 0)
		abort();
	/* with a process that seems to live */
	file.fd = open(path, O_RDWR);
	file.size = (size_t)pread(file.fd, good, sizeof good, 0);
	if (file.size < sizeof(struct segment_header) || file.size == sizeof good)
		abort();
	segment_leave(segment);
	changes_put(&file, 0, good, file.size);
}

static void clean_up(void)
{
	char lock[300];

	unlink(path);
	snprintf(lock, sizeof lock, "%s/.lock", folder);
	unlink(lock);
	rmdir(folder);
	close(file.fd);
}

static void check_view(void)
{
	if (strcmp(view.job, "fuzz") != 0 ||
	    strnlen(view.labels, sizeof view.labels) == sizeof view.labels ||
	    view.device_count < 0 || view.device_count > SEGMENT_DEVICES ||
	    view.process_count < 0 || view.process_count > SEGMENT_SLOTS)
		abort();
	for (int i = 0; i < view.process_count; i++) {
		const struct segment_process *process = &view.process[i];

		if (strnlen(process->command, sizeof process->command) == sizeof process->command ||
		    strnlen(process->complaint, sizeof process->complaint) ==
		        sizeof process->complaint ||
		    (process->state != SLOT_LIVE && process->state != SLOT_DRAINING))
			abort();
	}
}

static void segment_run(const uint8_t *data, size_t size)
{
	static const uint64_t still;
	const size_t sequence = offsetof(struct segment_header, sequence);
	char message[256];
	size_t length;

	if (!folder[0]) {
		set_up();
		atexit(clean_up);
	}
	if (size < 2)
		return;
	length = changes_length(&file, data);
	changes_apply(&file, data + 2, size - 2, false);
	changes_put(&file, sequence, &still, sizeof still); /* an odd one only costs time */
	if (length != file.size && ftruncate(file.fd, (off_t)length) != 0)
		abort();
	if (segment_read("fuzz", &view, message, sizeof message) == 0)
		check_view();
	if (length != file.size)
		changes_put(&file, 0, good, file.size);
	changes_apply(&file, data + 2, size - 2, true);
}

/* Where a change is likely to matter. */
static uint32_t segment_offset(void)
{
	uint64_t number = fuzz_random();

	switch (number % 4) {
	case 0:
		return (uint32_t)(number >> 8 & 0xff);
	case 1:
		return (uint32_t)((number >> 8) % sizeof(struct segment_header));
	case 2: /* a process slot's head */
		return (uint32_t)(offsetof(struct segment_file, row[0].slot) +
		                  (number >> 8) % 4 * sizeof(struct segment_slot) +
		                  (number >> 16) % 128);
	default:
		return (uint32_t)((number >> 8) % offsetof(struct segment_file, row[1]));
	}
}

static size_t segment_change(uint8_t input[FUZZ_INPUT_MAX])
{
	return changes_make(input, segment_offset);
}

const struct fuzz_target fuzz_segment = {
    .name = "segment",
    .reads = "segments of jobs",
    .run = segment_run,
    .good = changes_none,
    .change = segment_change,
    .rounds = 400,
};
