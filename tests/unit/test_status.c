/* SPDX-License-Identifier: MIT */
/* The status file: its contents, and when and how it is written. */
#include "tests/unit/state_directory.h"

#include <errno.h>

#include "core/base/clock.h"
#include "core/config/config.h"
#include "core/state/layout.h"
#include "core/pages/status.h"

static struct segment *segment;
static struct counters *counters;
static struct status told;
static char path[600];

static void setup(void)
{
	static const struct segment_device gpu = {.uuid = "GPU-1", .pci_bus_id = "0000:3B:00.0"};
	char message[512];

	state_directory_make();
	snprintf(path, sizeof path, "%s/status", state_directory);
	ck_assert_int_eq(segment_join("job", "", "", &segment, message, sizeof message), 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	counters = segment_own(segment, 0).counters;
	told = (struct status){0};
}

static void teardown(void)
{
	segment_leave(segment);
	rmdir(path);
	state_directory_remove();
}

/* As if its time had come. */
static int push(void)
{
	atomic_store(&segment->file->header.status_ns, 0);
	told.pushed_ns = 0;
	return status_push(segment, path, &told);
}

static void expect(const char *text)
{
	char found[4096] = "";
	int fd = open(path, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(read(fd, found, sizeof found - 1), 0);
	close(fd);
	ck_assert_str_eq(found, text);
}

/* What a reader finds that has it open is the old file. */
static ino_t file(void)
{
	struct stat found;
	return stat(path, &found) == 0 ? found.st_ino : 0;
}

#define LINE(peak, used, charged, host_peak, host, host_charged, reason, rest) \
	"{\"gpuUsageInfo\":{\"3b:00.0\":{\"deviceMemUsedMax\":" #peak          \
	",\"deviceMemUsedMin\":" #used ",\"deviceMemPoolSize\":" #charged      \
	",\"deviceMemStable\":" #used ",\"hostMemUsedMax\":" #host_peak        \
	",\"hostMemUsedMin\":" #host ",\"hostMemPoolSize\":" #host_charged     \
	",\"swapReason\":\"" reason "\",\"deviceMemUsedNvidia\":-1}}" rest "}\n"

#define STEP(us) ",\"Durations\":{\"graph_0\":" #us "},\"miniBatchDuration\":" #us

START_TEST(says_what_a_job_holds)
{
	struct stat found;
	mode_t mask = umask(077);

	ck_assert_int_eq(push(), 0);
	umask(mask);
	expect(LINE(0, 0, 0, 0, 0, 0, "", ""));
	ck_assert_int_eq(stat(path, &found), 0);
	ck_assert_int_eq(found.st_mode & 07777, 0644);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 300, CONFIG_UNLIMITED), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_HOST, 70, CONFIG_UNLIMITED), 0);
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 100);
	statistics_set(&counters->spill_reason, SPILL_LIMIT);
	statistics_set(&counters->step_ns, 12345678);
	ck_assert_int_eq(push(), 0);
	expect(LINE(300, 200, 200, 70, 70, 70, "OOM", STEP(12345)));
}
END_TEST

START_TEST(has_the_steps_of_each_device)
{
	static const char steps[] =
	    "},\"Durations\":{\"graph_0\":5,\"graph_2\":7,\"graph_15\":18446744073709551},"
	    "\"miniBatchDuration\":18446744073709551}\n";
	struct status status = {.count = SEGMENT_DEVICES};
	char text[STATUS_TEXT_MAX];

	status.device[0].step_ns = 5999;
	status.device[2].step_ns = 7000;
	status.device[15].step_ns = UINT64_MAX;
	ck_assert_uint_eq(status_format(&status, text), strlen(text));
	ck_assert_ptr_nonnull(strstr(text, steps));
	/* the largest there is */
	memset(&status, 0xff, sizeof status);
	status.count = SEGMENT_DEVICES;
	for (int i = 0; i < SEGMENT_DEVICES; i++)
		status.device[i].has_spilled = true;
	ck_assert_uint_lt(status_format(&status, text), sizeof text);
}
END_TEST

START_TEST(is_pushed_when_something_changed)
{
	statistics_set(&counters->step_ns, 100000);
	ck_assert_int_eq(push(), 0);
	ino_t before = file();
	ck_assert_uint_ne(before, 0);
	int held = open(path, O_RDONLY);

	/* nothing, or less than a hundredth of the mean, or what is no memory */
	ck_assert_int_eq(push(), 0);
	statistics_set(&counters->step_ns, 100999);
	statistics_set(&counters->launches, 5);
	ck_assert_int_eq(push(), 0);
	statistics_set(&counters->step_ns, 99001);
	ck_assert_int_eq(push(), 0);
	ck_assert_uint_eq(file(), before);
	/* a hundredth, either way; and again only beyond what stands there now */
	statistics_set(&counters->step_ns, 101000);
	ck_assert_int_eq(push(), 0);
	ck_assert_uint_ne(file(), before);
	before = file();
	statistics_set(&counters->step_ns, 100500);
	ck_assert_int_eq(push(), 0);
	ck_assert_uint_eq(file(), before);
	int held_too = open(path, O_RDONLY);
	statistics_set(&counters->step_ns, 99900);
	ck_assert_int_eq(push(), 0);
	ck_assert_uint_ne(file(), before);
	/* a byte of memory, of any kind */
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, CONFIG_UNLIMITED), 0);
	ck_assert_int_eq(push(), 0);
	expect(LINE(1, 1, 1, 0, 0, 0, "", STEP(99)));
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_HOST, 1, CONFIG_UNLIMITED), 0);
	ck_assert_int_eq(push(), 0);
	expect(LINE(1, 1, 1, 1, 1, 1, "", STEP(99)));
	close(held);
	close(held_too);
}
END_TEST

START_TEST(is_pushed_at_most_every_ten_seconds)
{
	_Atomic uint64_t *last = &segment->file->header.status_ns;

	ck_assert_int_eq(push(), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 5, CONFIG_UNLIMITED), 0);
	ck_assert_int_eq(status_push(segment, path, &told), 0);
	expect(LINE(0, 0, 0, 0, 0, 0, "", ""));
	/* a second less, and as much */
	atomic_store(last, clock_now() - STATUS_PUSH_NS + 1000000000ull);
	ck_assert_int_eq(status_push(segment, path, &told), 0);
	expect(LINE(0, 0, 0, 0, 0, 0, "", ""));
	atomic_store(last, clock_now() - STATUS_PUSH_NS);
	ck_assert_int_eq(status_push(segment, path, &told), 0);
	expect(LINE(5, 5, 5, 0, 0, 0, "", ""));
}
END_TEST

static void push_more(void *unused)
{
	struct segment *other;
	struct status none = {0};

	(void)unused;
	if (segment_join("job", "", "", &other, NULL, 0) != 0 ||
	    segment_reserve(other, 0, SEGMENT_ON_DEVICE, 100, UINT64_MAX) != 0)
		_exit(1);
	atomic_store(&other->file->header.status_ns, 0);
	if (status_push(other, path, &none) != 0)
		_exit(1);
	segment_leave(other);
}

/* One that pushed, and ended: what it said of itself does not stay. */
START_TEST(what_another_one_pushed_does_not_stay)
{
	ino_t before;
	uint64_t then;

	/* The peak has been as high before. */
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 100, UINT64_MAX), 0);
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 100);
	ck_assert_int_eq(push(), 0);
	before = file();
	child_kill(child_start(push_more, NULL));
	ck_assert_uint_ne(file(), before);
	before = file();
	/* Not before its time. */
	ck_assert_int_eq(status_push(segment, path, &told), 0);
	ck_assert_uint_eq(file(), before);
	then = clock_now();
	then = then > STATUS_PUSH_NS ? then - STATUS_PUSH_NS : 1;
	atomic_store(&segment->file->header.status_ns, then);
	ck_assert_int_eq(status_push(segment, path, &told), 0);
	ck_assert_uint_ne(file(), before);
	/* And then it is known to stand there. */
	before = file();
	ck_assert_int_eq(push(), 0);
	ck_assert_uint_eq(file(), before);
}
END_TEST

/* What the file that a link leads to is, changes; the link stays. */
START_TEST(follows_a_link_of_ones_own)
{
	char other[600];
	struct stat link;

	snprintf(other, sizeof other, "%s/other", state_directory);
	ck_assert_int_eq(symlink("other", path), 0);
	ck_assert_int_eq(push(), 0);
	ck_assert_int_eq(lstat(path, &link), 0);
	ck_assert(S_ISLNK(link.st_mode));
	ck_assert_int_eq(lstat(other, &link), 0);
	ck_assert(S_ISREG(link.st_mode));
	expect(LINE(0, 0, 0, 0, 0, 0, "", ""));
}
END_TEST

START_TEST(follows_no_strangers_link)
{
	char other[600], text[8] = "";

	if (geteuid() != 0)
		return; /* who else could make one */
	snprintf(other, sizeof other, "%s/other", state_directory);
	int fd = open(other, O_CREAT | O_RDWR, 0600);
	ck_assert_int_eq(write(fd, "mine", 4), 4);
	ck_assert_int_eq(symlink(other, path), 0);
	ck_assert_int_eq(lchown(path, 65534, 65534), 0);
	ck_assert_int_eq(chmod(state_directory, 01777), 0);
	ck_assert_int_eq(push(), -EACCES);
	ck_assert_int_eq(pread(fd, text, 7, 0), 4);
	ck_assert_str_eq(text, "mine");
	close(fd);
}
END_TEST

/* And waits for nobody who might read it. */
START_TEST(writes_into_a_pipe)
{
	char text[sizeof LINE(0, 0, 0, 0, 0, 0, "", "")] = "";
	struct stat pipe;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(push(), -ENXIO);
	int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	told = (struct status){0};
	ck_assert_int_eq(push(), 0);
	ck_assert_int_gt(read(reader, text, sizeof text - 1), 0);
	ck_assert_str_eq(text, LINE(0, 0, 0, 0, 0, 0, "", ""));
	ck_assert_int_eq(lstat(path, &pipe), 0);
	ck_assert(S_ISFIFO(pipe.st_mode));
	close(reader);
}
END_TEST

START_TEST(leaves_nothing_where_it_cannot_be)
{
	ck_assert_int_eq(mkdir(path, 0700), 0);
	told = (struct status){0};
	ck_assert_int_eq(push(), -EISDIR);
	DIR *directory = opendir(state_directory);
	for (const struct dirent *entry; (entry = readdir(directory));)
		ck_assert_ptr_null(strstr(entry->d_name, ".new-"));
	closedir(directory);
	ck_assert_int_eq(status_push(segment, "/nonexistent/status", &told), 0); /* not its time */
	atomic_store(&segment->file->header.status_ns, 0);
	ck_assert_int_eq(status_push(segment, "/nonexistent/status", &told), -ENOENT);
}
END_TEST

START_TEST(is_json_whatever_a_segment_says)
{
	struct status status = {.count = SEGMENT_DEVICES};
	char text[STATUS_TEXT_MAX];

	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		struct status_device *device = &status.device[i];
		memset(device, 0xff, sizeof *device);
		memcpy(device->pci_bus_id, "\"\\\n\xff{}[]:\"\"\"\"\"\"", 16);
		device->has_spilled = true;
	}
	size_t length = status_format(&status, text);
	ck_assert_uint_lt(length, STATUS_TEXT_MAX);
	ck_assert_uint_eq(strlen(text), length);
	ck_assert_ptr_null(strchr(text, '\\'));
	ck_assert_ptr_eq(strchr(text, '\n'), text + length - 1);
	ck_assert_ptr_nonnull(strstr(text, "\"????????:"));
	ck_assert_ptr_nonnull(strstr(text, "18446744073709551615"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("status");
	TCase *tests = tcase_create("status");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, says_what_a_job_holds);
	tcase_add_test(tests, has_the_steps_of_each_device);
	tcase_add_test(tests, is_pushed_when_something_changed);
	tcase_add_test(tests, is_pushed_at_most_every_ten_seconds);
	tcase_add_test(tests, what_another_one_pushed_does_not_stay);
	tcase_add_test(tests, follows_a_link_of_ones_own);
	tcase_add_test(tests, follows_no_strangers_link);
	tcase_add_test(tests, writes_into_a_pipe);
	tcase_add_test(tests, leaves_nothing_where_it_cannot_be);
	tcase_add_test(tests, is_json_whatever_a_segment_says);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
