/*
 * libFuzzer target of the reader of segments. How: rules.mk of this folder. Without clang its main part is run by
 * tests/unit/test_fuzz_segment.c.
 *
 * Input: the segment of a job that has ended is changed by it: bytes 0 and 1 are its length, as a fraction of the right one;
 * then changes (changes.h). Nothing may crash or hang, and what is accepted is within its bounds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/state/directory.h"
#include "core/state/layout.h"
#include "tests/fuzz/changes.h"

static struct segment_file good;
static struct segment_view view;
static char folder[256], path[512];
static struct changed_file file = {
    .good = &good, .size = sizeof good, .hot_size = sizeof(struct segment_header)};

static void set_up(void)
{
	static const struct segment_device gpu = {.uuid = "GPU-1", .name = "a GPU", .memory = 1};
	const char *tmp = getenv("TMPDIR");
	struct segment *segment;

	snprintf(folder, sizeof folder, "%s/fuzz-segment-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		abort();
	setenv("SPILLWAY_STATE_DIR", folder, 1);
	segment_view_naps = 0; /* nobody writes */
	if (segment_join("fuzz", "a=b", "", &segment, NULL, 0) != 0 ||
	    segment_device(segment, &gpu) != 0)
		abort();
	segment_leave(segment);
	if (directory_segment_path("fuzz", path, sizeof path) != 0)
		abort();
	file.fd = open(path, O_RDWR);
	if (pread(file.fd, &good, sizeof good, 0) != sizeof good)
		abort();
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
	    view.process_count < 0 || view.process_count > SEGMENT_SEATS)
		abort();
	for (int i = 0; i < view.process_count; i++) {
		const struct segment_process *process = &view.process[i];

		if (strnlen(process->command, sizeof process->command) == sizeof process->command ||
		    strnlen(process->complaint, sizeof process->complaint) ==
		        sizeof process->complaint ||
		    (process->state != SEAT_LIVE && process->state != SEAT_DRAINING))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
		return 0;
	length = changes_length(&file, data);
	changes_apply(&file, data + 2, size - 2, false);
	changes_put(&file, sequence, &still, sizeof still); /* an odd one only costs time */
	if (length != sizeof good && ftruncate(file.fd, (off_t)length) != 0)
		abort();
	if (segment_read("fuzz", &view, message, sizeof message) == 0)
		check_view();
	if (length != sizeof good)
		changes_put(&file, 0, &good, sizeof good);
	changes_apply(&file, data + 2, size - 2, true);
	return 0;
}
