/* SPDX-License-Identifier: MIT */
/* Rings: writing, reading, overwriting, killing the writer, and files with false headers. */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/ring_files.h"
#include "core/rings/ring_layout.h"
#include "tools/view/ring_reader.h"

enum { THREADS = 8, KILLS = 40 };

static struct queue *work;
static struct ring_reader *reader;
static char message[512];

static int open_directory(void)
{
	int directory = directory_open(1, message, sizeof message);

	ck_assert_msg(directory >= 0, "%s", message);
	return directory;
}

static void setup(void)
{
	state_directory_make();
	work = queue_create(64);
	reader = ring_reader_create(open_directory());
}

static void teardown(void)
{
	ring_reader_destroy(reader);
	queue_destroy(work, free);
	state_directory_remove();
}

static struct segment *join(const char *job, const char *run)
{
	struct segment *segment = NULL;
	int error = segment_join(job, NULL, run, &segment, message, sizeof message);

	ck_assert_msg(error == 0, "%s", message);
	return segment;
}

static struct ring *make_ring(const struct segment *segment)
{
	struct ring *ring = NULL;

	ck_assert_msg(ring_create(segment, &ring, message, sizeof message) == 0, "%s", message);
	return ring;
}

static const char *name_of(const struct segment *segment)
{
	static char name[RING_NAME_MAX];
	struct ring_id id = {.pid = segment->slot->pid, .started_ns = segment->slot->started_ns};

	strcpy(id.job, segment->file->header.job);
	return ring_name(&id, name, sizeof name);
}

static const char *path_of(const char *name)
{
	static char path[1024];

	snprintf(path, sizeof path, "%s/%s", state_directory, name);
	return path;
}

static void ask(const char *name)
{
	ck_assert_int_eq(queue_put(work, strdup(name), 0), 0);
}

/* Returns how many units the reader's saved state says to be read. */
static uint64_t completed(void)
{
	char *state = ring_reader_serialize_state(reader);
	uint64_t count = strtoull(strstr(state, "\ncompleted ") + 11, NULL, 10);

	free(state);
	return count;
}

/* Reads the unit to its end. How many events; what was lost is added up. */
static int read_all(const char *name, struct ring_entry *entry, int most, uint64_t *lost)
{
	int count = 0;

	ask(name);
	for (;;) {
		struct ring_entry got;
		int n = ring_reader_read_up_to(reader, work, &got, 1, 0, message, sizeof message);

		ck_assert_msg(n >= 0, "%s", message);
		if (n == 0)
			return count;
		if (got.lost) {
			*lost += got.lost;
			continue;
		}
		if (count < most)
			entry[count] = got;
		count++;
	}
}

static struct ring_file *map_file(const char *name)
{
	int fd = open(path_of(name), O_RDWR);
	struct ring_file *file;

	ck_assert_int_ge(fd, 0);
	file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(file, MAP_FAILED);
	close(fd);
	return file;
}

static void write_number(struct ring *ring, uint64_t i)
{
	ring_write(ring, &(struct event){.kind = EVENT_burst, .begin_ns = 1000 + i, .a = i});
}

/* --- writing and reading --- */

START_TEST(what_is_written_is_read)
{
	static const struct event events[] = {
	    {EVENT_burst, 0, 100, 20, 1, 0, 0, 0, 0},
	    {EVENT_spill, 15, 200, 0, 1 << 20, SPILL_LIMIT, 5, 0x7f0012345678, 3},
	    {EVENT_configuration, EVENT_NO_DEVICE, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
	     UINT64_MAX, UINT64_MAX, UINT32_MAX},
	};
	enum { COUNT = sizeof events / sizeof *events };
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry[COUNT + 1];
	uint64_t lost = 0, before = clock_now();
	struct stat status;

	ring_name_device(ring, 0, 3);
	for (int i = 0; i < COUNT; i++)
		ring_write(ring, &events[i]);
	ring_write(ring, &(struct event){.kind = EVENT_pause, .device = 1});
	ck_assert_int_eq(read_all(name_of(segment), entry, COUNT + 1, &lost), COUNT + 1);
	ck_assert_uint_eq(lost, 0);
	for (int i = 0; i < COUNT; i++) {
		const struct event *got = &entry[i].event, *put = &events[i];

		ck_assert_int_eq(got->kind, put->kind);
		ck_assert_int_eq(got->device, put->device);
		ck_assert_uint_eq(got->begin_ns, put->begin_ns);
		ck_assert_uint_eq(got->duration_ns, put->duration_ns);
		ck_assert_uint_eq(got->a, put->a);
		ck_assert_uint_eq(got->b, put->b);
		ck_assert_uint_eq(got->c, put->c);
		ck_assert_uint_eq(got->object, put->object);
		ck_assert_uint_eq(got->context, put->context);
	}
	/* An event without a begin is of the moment. */
	ck_assert_uint_ge(entry[COUNT].event.begin_ns, before);
	ck_assert_uint_le(entry[COUNT].event.begin_ns, clock_now());

	const struct ring_source *source = entry[0].source;
	ck_assert_str_eq(source->job, "job");
	ck_assert_int_eq(source->pid, getpid());
	ck_assert_uint_eq(source->started_ns, segment->slot->started_ns);
	ck_assert_str_eq(source->command, segment->slot->command);
	ck_assert_int_eq(source->device[0], 3);
	ck_assert_int_eq(source->device[1], -1);
	ck_assert_uint_eq(ring_reader_produced(reader), COUNT + 1);
	ck_assert_uint_eq(completed(), 1);

	ck_assert_int_eq(stat(path_of(name_of(segment)), &status), 0);
	ck_assert_int_eq(status.st_mode & 07777, 0600);
	ck_assert_int_eq(status.st_size, sizeof(struct ring_file));
	/* Nothing that is written to is a hole: a full file system is no SIGBUS. */
	ck_assert_int_ge(status.st_blocks * 512,
	                 offsetof(struct ring_file, record[RING_RECORDS_FIRST]));
	munmap(ring, sizeof(struct ring_file));
	segment_leave(segment);
}
END_TEST

START_TEST(without_a_ring_nothing_is_evaluated)
{
	struct segment *segment = join("job", NULL);
	struct ring_entry entry;
	uint64_t evaluated = 0, lost = 0;

	event_note(.kind = EVENT_step, .a = ++evaluated);
	ck_assert_uint_eq(evaluated, 0);
	atomic_store(&event_ring, make_ring(segment));
	event_note(.kind = EVENT_step, .a = ++evaluated);
	ck_assert_int_eq(read_all(name_of(segment), &entry, 1, &lost), 1);
	ck_assert_uint_eq(entry.event.a, 1);
	ck_assert_uint_eq(event_context("ctx12"), 12);
	ck_assert_uint_eq(event_context("default"), 0);
	segment_leave(segment);
}
END_TEST

START_TEST(each_record_is_handed_out_once)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry[10];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 25; i++)
		write_number(ring, i);
	ask(name_of(segment));
	/* What is written from now on is not of this unit. */
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 10, 0, message, 512), 10);
	write_number(ring, 25);
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 10, 0, message, 512), 10);
	ck_assert_uint_eq(entry[9].event.a, 19);
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 10, 0, message, 512), 5);
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 10, 0, message, 512), 0);
	ck_assert_uint_eq(completed(), 1);
	ck_assert_int_eq(read_all(name_of(segment), entry, 10, &lost), 1);
	ck_assert_uint_eq(entry[0].event.a, 25);
	ck_assert_int_eq(read_all(name_of(segment), entry, 10, &lost), 0);
	ck_assert_uint_eq(completed(), 3);
	ck_assert_uint_eq(ring_reader_produced(reader), 26);
	ring_reader_reset(reader);
	ck_assert_uint_eq(ring_reader_produced(reader), 0);
	ck_assert_int_eq(read_all(name_of(segment), entry, 10, &lost), 26);
	ck_assert_uint_eq(lost, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(what_is_overwritten_is_counted)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry[2];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < RING_RECORDS + 100; i++)
		write_number(ring, i);
	ask(name_of(segment));
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 1, 0, message, 512), 1);
	/* The loss comes first, and is of the time of what follows. */
	ck_assert_uint_eq(entry->lost, 100);
	ck_assert_uint_eq(entry->event.begin_ns, 1100);
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 1, 0, message, 512), 1);
	ck_assert_uint_eq(entry->event.a, 100);
	/* Overwritten while the unit is read: what was copied before is still handed out. */
	for (uint64_t i = 0; i < 1000; i++)
		write_number(ring, RING_RECORDS + 100 + i);
	uint64_t read = 1, next = 101;
	while (ring_reader_read_up_to(reader, work, entry, 1, 0, message, 512) == 1) {
		if (entry->lost) {
			lost += entry->lost;
			next += entry->lost;
			continue;
		}
		ck_assert_uint_eq(entry->event.a, next++);
		read++;
	}
	ck_assert_uint_gt(lost, 0);
	ck_assert_uint_eq(read + lost, RING_RECORDS);
	ck_assert_uint_eq(ring_reader_lost(reader), lost + 100);
	segment_leave(segment);
}
END_TEST

/*
 * --- torn records: between and during the reader's copies of records, which are numbered from 0
 * ---
 */

static struct ring_file *watched;
static int copies;
static void (*before_copy)(int number);
static void (*after_copy)(int number, struct ring_record *copy);

ssize_t __real_pread(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at)
{
	bool is_of_records = watched && at == offsetof(struct ring_file, record);
	ssize_t length;

	if (is_of_records && before_copy)
		before_copy(copies);
	length = __real_pread(fd, to, size, at);
	if (is_of_records && after_copy)
		after_copy(copies, to);
	copies += is_of_records;
	return length;
}

static int overwrite_before;

/* The writer comes round. */
static void overwrite(int number)
{
	if (number != overwrite_before)
		return;
	watched->record[0].sequence = 2 * (uint64_t)RING_RECORDS + 1;
	watched->record[0].value[0] = 666;
	watched->record[0].sequence = 2 * (uint64_t)RING_RECORDS + 2;
}

START_TEST(a_record_that_is_overwritten_between_copies_is_lost)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry[2];
	uint64_t lost = 0;

	write_number(ring, 0);
	write_number(ring, 1);
	watched = map_file(name_of(segment));
	overwrite_before = _i;
	before_copy = overwrite;
	ck_assert_int_eq(read_all(name_of(segment), entry, 2, &lost), 1);
	ck_assert_uint_eq(entry[0].event.a, 1);
	ck_assert_uint_eq(lost, 1);
	ck_assert_int_eq(copies, 3);
	segment_leave(segment);
}
END_TEST

/* It begins before the first copy, and the second is of it half written. */
static void write_during_copy(int number, struct ring_record *copy)
{
	if (number != 1)
		return;
	copy[0].value[0] = 666;
	watched->record[0].sequence = 2;
}

START_TEST(a_record_that_is_finished_between_copies_is_for_the_next_time)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry;
	uint64_t lost = 0;

	write_number(ring, 0);
	watched = map_file(name_of(segment));
	watched->record[0].sequence = 1;
	after_copy = write_during_copy;
	ck_assert_int_eq(read_all(name_of(segment), &entry, 1, &lost), 0);
	ck_assert_uint_eq(lost, 0);
	ck_assert_int_eq(copies, 3);
	ck_assert_int_eq(read_all(name_of(segment), &entry, 1, &lost), 1);
	ck_assert_uint_eq(entry.event.a, 0);
	ck_assert_uint_eq(lost, 0);
	ck_assert_int_eq(copies, 6);
	segment_leave(segment);
}
END_TEST

/* --- many writers --- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

static struct event made_from(uint64_t seed)
{
	return (struct event){
	    .kind = (enum event_kind)(seed % EVENT_KINDS),
	    .device = (int)(seed % 17) - 1,
	    .begin_ns = seed + 1,
	    .duration_ns = mix(seed),
	    .a = mix(seed + 1),
	    .b = mix(seed + 2),
	    .c = mix(seed + 3),
	    .object = mix(seed + 4),
	    .context = (uint32_t)mix(seed + 5),
	};
}

static bool is_whole(const struct event *event)
{
	struct event made = made_from(event->begin_ns - 1);

	return event->kind == made.kind && event->device == made.device &&
	       event->duration_ns == made.duration_ns && event->a == made.a && event->b == made.b &&
	       event->c == made.c && event->object == made.object && event->context == made.context;
}

static struct ring *shared_ring;
static _Atomic bool stop;

enum { THREAD_SHIFT = 40 };

static void *write_many(void *number)
{
	uint64_t seed = (uint64_t)(uintptr_t)number << THREAD_SHIFT;

	for (uint64_t i = 0; i < 40000; i++) {
		struct event event = made_from(seed + i);
		ring_write(shared_ring, &event);
	}
	return NULL;
}

/* Each of one thread's records comes after those it wrote before. */
START_TEST(of_eight_writers_no_record_is_torn_and_each_loss_is_counted)
{
	struct segment *segment = join("job", NULL);
	pthread_t thread[THREADS];
	uint64_t next[THREADS] = {0}, lost = 0, read = 0, total = (uint64_t)THREADS * 40000;
	struct ring_entry entry[100];

	shared_ring = make_ring(segment);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, write_many, (void *)i);
	while (read + lost < total) {
		ask(name_of(segment));
		int n;
		while ((n = ring_reader_read_up_to(reader, work, entry, 100, 0, message, 512)) >
		       0) {
			for (int i = 0; i < n; i++) {
				if (entry[i].lost) {
					lost += entry[i].lost;
					continue;
				}
				uint64_t seed = entry[i].event.begin_ns - 1;
				ck_assert(is_whole(&entry[i].event));
				ck_assert_uint_ge(seed & 0xffffffffff, next[seed >> THREAD_SHIFT]);
				next[seed >> THREAD_SHIFT] = (seed & 0xffffffffff) + 1;
				read++;
			}
		}
		ck_assert_msg(n == 0, "%s", message);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(read + lost, total);
	ck_assert_uint_eq(ring_reader_produced(reader), read);
	ck_assert_uint_eq(ring_reader_lost(reader), lost);
	munmap(shared_ring, sizeof(struct ring_file));
	segment_leave(segment);
}
END_TEST

static void *write_until_stopped(void *number)
{
	uint64_t seed = (uint64_t)(uintptr_t)number << THREAD_SHIFT;

	while (!stop) {
		struct event event = made_from(seed++);
		ring_write(shared_ring, &event);
	}
	return NULL;
}

static void child_write(void *run)
{
	pthread_t thread;
	struct segment *segment = join("job", run);

	shared_ring = make_ring(segment);
	pthread_create(&thread, NULL, write_until_stopped, NULL);
}

static char found_name[RING_NAME_MAX];

static void note_name(void *cookie, const char *name)
{
	++*(int *)cookie;
	snprintf(found_name, sizeof found_name, "%s", name);
}

static int count_rings(const char *job)
{
	int count = 0, directory = open_directory();

	ck_assert_int_eq(ring_list(directory, job, note_name, &count), count);
	close(directory);
	return count;
}

START_TEST(a_killed_writer_leaves_at_most_one_torn_record)
{
	for (int kill_number = 0; kill_number < KILLS; kill_number++) {
		char run[16];
		snprintf(run, sizeof run, "%d", kill_number);
		pid_t child = child_start(child_write, run);
		nanosleep(&(struct timespec){.tv_nsec = 1 + kill_number * 31013 % 900000}, NULL);
		child_kill(child);
		ck_assert_int_eq(count_rings("job"), 1);

		struct ring_file *file = map_file(found_name);
		uint64_t written = file->header.next, lost = 0;
		uint64_t room = file->header.records;
		uint64_t overwritten = written > room ? written - room : 0;
		static struct ring_entry entry[RING_RECORDS];
		int read = read_all(found_name, entry, RING_RECORDS, &lost);
		munmap(file, sizeof *file);

		for (int i = 0; i < read; i++)
			ck_assert(is_whole(&entry[i].event));
		/* the last one is told of neither way if it was not finished */
		ck_assert_uint_ge((uint64_t)read + lost + 1, written);
		ck_assert_uint_le((uint64_t)read + lost, written);
		ck_assert_uint_le(lost - overwritten, 1);
	}
}
END_TEST

/* A writer that was stopped in the middle of a record, for as long as it takes. */
START_TEST(a_record_that_is_never_finished_is_skipped_and_no_later_one_is_mixed_with_it)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));
	struct ring_entry entry[4];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 3; i++)
		write_number(ring, i);
	file->record[1].sequence = 2 * 1 + 1; /* as if it were at work there */
	ck_assert_int_eq(read_all(name_of(segment), entry, 4, &lost), 2);
	ck_assert_uint_eq(lost, 1);
	ck_assert_uint_eq(entry[0].event.a, 0);
	ck_assert_uint_eq(entry[1].event.a, 2);
	/* A lap later it is still there: the record that would lie here is dropped and counted. */
	for (uint64_t i = 3; i < RING_RECORDS + 3; i++)
		write_number(ring, i);
	ck_assert_uint_eq(file->record[1].sequence, 2 * 1 + 1);
	ck_assert_uint_eq(file->record[1].value[0], 1);
	lost = 0;
	ck_assert_int_eq(read_all(name_of(segment), entry, 4, &lost), RING_RECORDS - 1);
	ck_assert_uint_eq(lost, 1);
	/* One that comes too late finds a later one in its place, and leaves it alone. */
	file->record[3].sequence = 2 * (3 + 5 * (uint64_t)RING_RECORDS) + 2;
	file->header.next = 3 + 2 * (uint64_t)RING_RECORDS;
	write_number(ring, 77);
	ck_assert_uint_ne(file->record[3].value[0], 77);
	munmap(file, sizeof *file);
	segment_leave(segment);
}
END_TEST

START_TEST(the_last_records_are_left_until_their_writers_have_finished)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));
	struct ring_entry entry[3];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 3; i++)
		write_number(ring, i);
	file->record[1].sequence = 2 * 1 + 1;
	file->record[2].sequence = 2 * 2 + 1;
	ck_assert_int_eq(read_all(name_of(segment), entry, 3, &lost), 1);
	ck_assert_int_eq(read_all(name_of(segment), entry, 3, &lost), 0);
	ck_assert_uint_eq(lost, 0);
	file->record[1].sequence = 2 * 1 + 2;
	ck_assert_int_eq(read_all(name_of(segment), entry, 3, &lost), 1);
	ck_assert_uint_eq(entry[0].event.a, 1);
	file->record[2].sequence = 2 * 2 + 2;
	ck_assert_int_eq(read_all(name_of(segment), entry, 3, &lost), 1);
	ck_assert_uint_eq(entry[0].event.a, 2);
	ck_assert_uint_eq(lost, 0);
	munmap(file, sizeof *file);
	segment_leave(segment);
}
END_TEST

/* --- room --- */

static uint64_t bytes_of(const char *name)
{
	struct stat status;

	ck_assert_int_eq(stat(path_of(name), &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

START_TEST(a_ring_grows_before_its_places_are_used_again)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));
	static struct ring_entry entry[RING_RECORDS];
	uint64_t lost = 0, written = 0;

	if (file->header.records == RING_RECORDS)
		return; /* a kernel before 5.14: it is whole from the beginning */
	ck_assert_uint_le(bytes_of(name_of(segment)), (64 + 4) << 10);
	while (written < RING_RECORDS_FIRST / 4)
		write_number(ring, written++);
	ck_assert_int_eq(file->header.records, RING_RECORDS_FIRST);
	while (written < RING_RECORDS)
		write_number(ring, written++);
	ck_assert_int_eq(file->header.records, RING_RECORDS);
	ck_assert_uint_ge(bytes_of(name_of(segment)), sizeof *file);
	ck_assert_int_eq(read_all(name_of(segment), entry, RING_RECORDS, &lost), RING_RECORDS);
	ck_assert_uint_eq(lost, 0);
	for (uint64_t i = 0; i < RING_RECORDS; i++)
		ck_assert_uint_eq(entry[i].event.a, i);
	segment_leave(segment);
}
END_TEST

START_TEST(a_ring_that_cannot_grow_keeps_the_latest)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));
	static struct ring_entry entry[RING_RECORDS_FIRST];
	uint64_t lost = 0;

	if (file->header.records == RING_RECORDS)
		return;
	for (uint64_t i = 0; i < 3 * RING_RECORDS_FIRST + 7; i++) {
		/* as if there were no room when it is asked for */
		if (i == RING_RECORDS_FIRST / 4)
			ck_assert_int_eq(truncate(path_of(name_of(segment)), 64 << 10), 0);
		write_number(ring, i);
		if (i == RING_RECORDS_FIRST / 4)
			ck_assert_int_eq(truncate(path_of(name_of(segment)), sizeof *file), 0);
	}
	ck_assert_int_eq(file->header.records, RING_RECORDS_FIRST);
	ck_assert_int_eq(read_all(name_of(segment), entry, RING_RECORDS_FIRST, &lost),
	                 RING_RECORDS_FIRST);
	ck_assert_uint_eq(lost, 2 * RING_RECORDS_FIRST + 7);
	ck_assert_uint_eq(entry[0].event.a, 2 * RING_RECORDS_FIRST + 7);
	segment_leave(segment);
}
END_TEST

/* The record that makes the ring grow finds its place taken by a writer that was quicker. */
START_TEST(a_ring_grows_though_the_record_is_lost)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));

	if (file->header.records == RING_RECORDS)
		return;
	atomic_store(&file->record[RING_RECORDS_FIRST / 4].sequence, 2 * RING_RECORDS_FIRST + 1);
	for (uint64_t i = 0; i <= RING_RECORDS_FIRST / 4; i++)
		write_number(ring, i);
	ck_assert_int_eq(file->header.records, RING_RECORDS);
	segment_leave(segment);
}
END_TEST

static struct segment *of_ring;
static int rings_made;

static void make_of_ring(void)
{
	rings_made++;
	atomic_store(&event_ring, make_ring(of_ring));
}

/* Nothing is made of what was said before there is a ring for it; in either order. */
START_TEST(a_ring_is_made_when_there_is_something_to_write)
{
	of_ring = join("job", NULL);
	if (_i == 0)
		ring_prepare(make_of_ring);
	else
		ring_begin();
	ck_assert_int_eq(rings_made, 0);
	ck_assert_int_eq(access(path_of(name_of(of_ring)), F_OK), -1);
	if (_i == 0)
		ring_begin();
	else
		ring_prepare(make_of_ring);
	ck_assert_int_eq(rings_made, 1);
	ck_assert_int_eq(access(path_of(name_of(of_ring)), F_OK), 0);
	ring_begin();
	ring_prepare(make_of_ring);
	ck_assert_int_eq(rings_made, 1);
	segment_leave(of_ring);
}
END_TEST

/* --- going on --- */

START_TEST(another_reader_goes_on_where_one_has_ended)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry[20];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 15; i++)
		write_number(ring, i);
	ask(name_of(segment));
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 7, 0, message, 512), 7);
	char *state = ring_reader_serialize_state(reader);
	ring_reader_destroy(reader);

	reader = ring_reader_create(open_directory());
	ck_assert_int_eq(ring_reader_restore_state(reader, state, message, sizeof message), 0);
	ck_assert_uint_eq(ring_reader_produced(reader), 7);
	ck_assert_int_eq(read_all(name_of(segment), entry, 20, &lost), 8);
	ck_assert_uint_eq(entry[0].event.a, 7);
	free(state);

	/*
	 * The ring of a process that began meanwhile is read from its beginning; what is lost is
	 * counted.
	 */
	state = ring_reader_serialize_state(reader);
	for (uint64_t i = 15; i < RING_RECORDS + 18; i++)
		write_number(ring, i);
	ring_reader_destroy(reader);
	reader = ring_reader_create(open_directory());
	ck_assert_int_eq(ring_reader_restore_state(reader, state, message, sizeof message), 0);
	ck_assert_int_eq(read_all(name_of(segment), entry, 20, &lost), RING_RECORDS);
	ck_assert_uint_eq(lost, 3);
	ck_assert_uint_eq(ring_reader_lost(reader), 3);
	free(state);

	/* A ring that is gone is not kept in mind. */
	munmap(ring, sizeof(struct ring_file));
	ck_assert_int_eq(unlink(path_of(name_of(segment))), 0);
	state = ring_reader_serialize_state(reader);
	ck_assert_ptr_null(strstr(state, "\nring "));
	free(state);
	segment_leave(segment);
}
END_TEST

START_TEST(a_damaged_state_changes_nothing)
{
	static const char good[] = "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	                           "ring job.7-00000000000000ff.events 44\nend\n";
	static const char *const bad[] = {
	    "",
	    "\n",
	    "spillway ring reader 2\nproduced 5\ncompleted 2\nlost 1\nend\n",
	    "spillway ring reader 1\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n",
	    "spillway ring reader 1\nproduced -5\ncompleted 2\nlost 1\nend\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 99999999999999999999\nend\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\nend\nmore\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\nring x 4\nend\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	    "ring ../job.7-00000000000000ff.events 4\nend\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	    "ring job.7-00000000000000ff.events\nend\n",
	    "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	    "ring job.7-00000000000000ff.events 4\nring job.7-00000000000000ff.events 5\nend\n",
	};

	ck_assert_int_eq(ring_reader_restore_state(reader, good, message, sizeof message), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		message[0] = '\0';
		ck_assert_int_eq(ring_reader_restore_state(reader, bad[i], message, sizeof message),
		                 -EINVAL);
		ck_assert_str_ne(message, "");
		ck_assert_uint_eq(ring_reader_produced(reader), 5);
	}
	for (size_t cut = 0; cut < sizeof good - 1; cut++) {
		char text[sizeof good];
		snprintf(text, sizeof text, "%.*s", (int)cut, good);
		ck_assert_int_eq(ring_reader_restore_state(reader, text, message, sizeof message),
		                 -EINVAL);
	}
}
END_TEST

static void *cancel_soon(void *unused)
{
	(void)unused;
	pause_ms(10);
	ring_reader_cancel(reader);
	return NULL;
}

START_TEST(a_reader_that_waits_can_be_cancelled)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_entry entry;
	pthread_t thread;

	write_number(ring, 1);
	pthread_create(&thread, NULL, cancel_soon, NULL);
	ck_assert_int_eq(
	    ring_reader_read_up_to(reader, work, &entry, 1, 3600000000000, message, sizeof message),
	    -ECANCELED);
	pthread_join(thread, NULL);
	ask(name_of(segment));
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, &entry, 1, 0, message, 512),
	                 -ECANCELED);
	ring_reader_reset(reader);
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, &entry, 1, 0, message, 512), 1);
	/* Nothing more will come. */
	ck_assert_int_eq(ring_reader_read_up_to(reader, work, &entry, 1, 0, message, 512), 0);
	segment_leave(segment);
}
END_TEST

/* --- the files --- */

START_TEST(rings_go_with_their_job)
{
	struct segment *segment = join("job", "run1"), *other = join("job.2", NULL);

	munmap(make_ring(segment), sizeof(struct ring_file));
	munmap(make_ring(other), sizeof(struct ring_file));
	ck_assert_int_eq(count_rings("job"), 1);
	ck_assert_int_eq(count_rings("job.2"), 1);
	ck_assert_int_eq(count_rings(NULL), 2);
	/* It outlives its process, and stays when the same run goes on; not so in the next one. */
	segment_leave(segment);
	ck_assert_int_eq(count_rings("job"), 1);
	segment = join("job", "run1");
	ck_assert_int_eq(count_rings("job"), 1);
	segment_leave(segment);
	segment = join("job", "run2");
	ck_assert_int_eq(count_rings("job"), 0);
	munmap(make_ring(segment), sizeof(struct ring_file));
	segment_leave(segment);
	ck_assert_int_eq(segment_remove("job"), 0);
	ck_assert_int_eq(count_rings("job"), 0);
	ck_assert_int_eq(count_rings("job.2"), 1);
	/* That of a job nobody named goes with its process. */
	segment_remove_left(other);
	ck_assert_int_eq(count_rings("job.2"), 1);
	ck_assert_int_eq(segment_remove_own(other), 0);
	ck_assert_int_eq(count_rings(NULL), 0);
	segment_leave(other);
}
END_TEST

static void make_file_of(const char *name)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

START_TEST(of_a_run_with_many_processes_the_last_rings_stay)
{
	struct segment *first = join("job", "run");
	char name[RING_NAME_MAX], oldest[RING_NAME_MAX + 1];
	struct ring_id id = {.job = "job", .pid = 9};

	munmap(make_ring(first), sizeof(struct ring_file));
	for (int i = 1; i <= RING_KEPT + 10; i++) {
		id.started_ns = (uint64_t)i;
		make_file_of(ring_name(&id, name, sizeof name));
	}
	snprintf(oldest, sizeof oldest, ".%s", name);
	make_file_of(oldest); /* its maker was killed */
	struct segment *second = join("job", "run");
	/* That of the living is not counted. */
	ck_assert_int_eq(count_rings("job"), RING_KEPT + 1);
	ck_assert_int_eq(access(path_of(name_of(first)), F_OK), 0);
	ck_assert_int_eq(access(path_of(name), F_OK), 0);
	ck_assert_int_ne(access(path_of(oldest), F_OK), 0);
	id.started_ns = 10;
	ck_assert_int_ne(access(path_of(ring_name(&id, name, sizeof name)), F_OK), 0);
	segment_leave(second);
	segment_leave(first);
}
END_TEST

START_TEST(a_ring_is_made_whole_or_not_at_all)
{
	struct segment *segment = join("job", NULL);
	struct rlimit small = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY}, before;
	char unfinished[RING_NAME_MAX + 1];
	struct ring *ring = NULL;
	struct stat made;

	getrlimit(RLIMIT_FSIZE, &before);
	small.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	ck_assert_int_eq(ring_create(segment, &ring, message, sizeof message), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_ptr_nonnull(strstr(message, name_of(segment)));
	ck_assert_int_eq(count_rings(NULL), 0);
	/* Nothing is written through what somebody has put there. */
	snprintf(unfinished, sizeof unfinished, ".%s", name_of(segment));
	ck_assert_int_eq(access(path_of(unfinished), F_OK), -1);
	ck_assert_int_eq(symlink("/dev/null", path_of(unfinished)), 0);
	ck_assert_int_eq(ring_create(segment, &ring, message, sizeof message), 0);
	ck_assert_int_eq(access(path_of(unfinished), F_OK), -1);
	ck_assert_int_eq(lstat(path_of(name_of(segment)), &made), 0);
	ck_assert(S_ISREG(made.st_mode));
	segment_leave(segment);
}
END_TEST

START_TEST(names_of_rings_are_read_strictly)
{
#define JOB_OF_64 "1234567890123456789012345678901234567890123456789012345678901234"
	static const char too_long[] = JOB_OF_64 ".7-00000000000000ff.events";
	static const char *const bad[] = {
	    "",
	    ".events",
	    "job.events",
	    "job.7.events",
	    "job.7-ff.events",
	    "job.7-00000000000000FF.events",
	    "job.07-00000000000000ff.events",
	    "job.+7-00000000000000ff.events",
	    "job.-7-00000000000000ff.events",
	    "job.99999999999-00000000000000ff.events",
	    "job.7-00000000000000ff.events~",
	    "job.7-100000000000000ff.events",
	    ".7-00000000000000ff.events",
	    ".job.7-00000000000000ff.events",
	    "j/b.7-00000000000000ff.events",
	    too_long,
	};
	struct ring_id id;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(!ring_name_parse(bad[i], &id), "%s", bad[i]);
	ck_assert(ring_name_parse("a.7-00000000000000ff.9-0123456789abcdef.events", &id));
	ck_assert_str_eq(id.job, "a.7-00000000000000ff");
	ck_assert_int_eq(id.pid, 9);
	ck_assert_uint_eq(id.started_ns, 0x0123456789abcdef);
}
END_TEST

/* --- what is not a ring --- */

/* The answer to reading it, which is an error that names it. */
static int refused(const char *name)
{
	struct ring_entry entry;

	ask(name);
	message[0] = '\0';
	int answer = ring_reader_read_up_to(reader, work, &entry, 1, 0, message, sizeof message);
	ck_assert_int_lt(answer, 0);
	ck_assert_msg(strstr(message, name), "%s", message);
	/* And there is no unit at hand any more. */
	ck_assert_int_eq(
	    ring_reader_read_up_to(reader, work, &entry, 1, 0, message, sizeof message), 0);
	return answer;
}

START_TEST(what_does_not_fit_is_refused)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	const char *name = name_of(segment);
	struct ring_header good;

	write_number(ring, 1);
	struct ring_file *file = map_file(name);
	good = file->header;
#define WITH(change, error)                                 \
	do {                                                \
		change;                                     \
		ck_assert_int_eq(refused(name), error);     \
		memcpy(&file->header, &good, sizeof(good)); \
	} while (0)
	WITH(file->header.magic[0] = 'x', -EPROTO);
	WITH(file->header.version++, -EPROTO);
	WITH(file->header.records *= 2, -EPROTO);
	WITH(file->header.size++, -EPROTO);
	WITH(file->header.pid++, -EPROTO);
	WITH(file->header.started_ns++, -EPROTO);
	WITH(memset(file->header.job, 'j', sizeof file->header.job), -EPROTO);
	WITH(memset(file->header.command, 'c', sizeof file->header.command), -EPROTO);
	WITH(memset(file->header.boot_id, 'b', sizeof file->header.boot_id), -EPROTO);
	WITH(strcpy(file->header.boot_id, "another"), -ESTALE);
	WITH(memset(&file->header, 0, sizeof file->header), -EPROTO);
#undef WITH
	struct ring_entry entry;
	uint64_t lost = 0;
	ck_assert_int_eq(read_all(name, &entry, 1, &lost), 1);
	file->header.next = 0;
	ck_assert_int_eq(refused(name), -EPROTO);
	munmap(file, sizeof *file);

	for (off_t size = sizeof(struct ring_file); size > 0; size /= 3) {
		ck_assert_int_eq(truncate(path_of(name), size - 1), 0);
		ck_assert_int_eq(refused(name), -EPROTO);
	}
	unlink(path_of(name));
	ck_assert_int_eq(refused(name), -ENOENT);
	ck_assert_int_eq(mkfifo(path_of(name), 0600), 0);
	ck_assert_int_eq(refused(name), -EPROTO);
	unlink(path_of(name));
	ck_assert_int_eq(mkdir(path_of(name), 0700), 0);
	ck_assert_int_eq(refused(name), -EPROTO);
	rmdir(path_of(name));
	ck_assert_int_eq(symlink("/dev/zero", path_of(name)), 0);
	ck_assert_int_eq(refused(name), -ELOOP);
	ck_assert_int_eq(refused("no ring"), -EPROTO);
	segment_leave(segment);
}
END_TEST

/* With a unit at hand, of which a batch was read. */
START_TEST(a_ring_that_is_swapped_while_it_is_read_is_refused)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	const char *name = name_of(segment);
	struct ring_entry entry[400];

	for (int way = 0; way < 2; way++) {
		for (uint64_t i = 0; i < 1000; i++)
			write_number(ring, i);
		ask(name);
		ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 10, 0, message, 512),
		                 10);
		struct ring_file *file = map_file(name);
		if (way == 0)
			file->header.version = 77;
		else
			ck_assert_int_eq(truncate(path_of(name), 5000), 0);
		/* What was copied before is good; then comes the error. */
		int n = ring_reader_read_up_to(reader, work, entry, 400, 0, message, 512);
		ck_assert_int_gt(n, 0);
		ck_assert_int_lt(n, 400);
		ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 1, 0, message, 512),
		                 -EPROTO);
		ck_assert_int_eq(ring_reader_read_up_to(reader, work, entry, 1, 0, message, 512),
		                 0);
		if (way == 0)
			file->header.version = RING_VERSION;
		munmap(file, sizeof *file);
	}
	segment_leave(segment);
}
END_TEST

START_TEST(records_that_are_none_are_counted_as_lost)
{
	struct segment *segment = join("job", NULL);
	struct ring *ring = make_ring(segment);
	struct ring_file *file = map_file(name_of(segment));
	struct ring_entry entry[8];
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 8; i++)
		write_number(ring, i);
	file->record[1].what = EVENT_KINDS;
	file->record[2].what = UINT64_MAX;
	file->record[3].what = EVENT_burst | (uint64_t)SEGMENT_DEVICES << 16;
	file->record[4].what = EVENT_burst | (uint64_t)0xfffe << 16;
	file->record[5].sequence = UINT64_MAX;
	ck_assert_int_eq(read_all(name_of(segment), entry, 8, &lost), 3);
	ck_assert_uint_eq(lost, 5);
	ck_assert_uint_eq(entry[2].event.a, 7);
	/* A number of records that cannot be: they are lost, and it has an end. */
	file->header.next = UINT64_MAX - 1;
	lost = 0;
	ck_assert_int_eq(read_all(name_of(segment), entry, 8, &lost), 0);
	ck_assert_uint_gt(lost, UINT64_MAX - 1 - 8 - 257); /* the last ones may be at it */
	munmap(file, sizeof *file);
	segment_leave(segment);
}
END_TEST

/* In memory, where the kernel knows the writers of a file. */
static void setup_in_memory(void)
{
	setenv("TMPDIR", "/dev/shm", 1);
	setup();
}

static int touch(int directory, const char *name)
{
	int fd = openat(directory, name, O_CREAT | O_RDWR, 0600);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Whatever version they are of: rings are known by their names. */
START_TEST(rings_without_a_job_are_removed_when_no_process_has_them)
{
	static const char left[] = "gone.7-0000000000000001.events",
	                  unfinished[] = ".gone.7-0000000000000002.events",
	                  in_use[] = "gone.7-0000000000000003.events",
	                  of_job[] = "here.7-0000000000000004.events",
	                  no_ring[] = "gone.7-4.events";
	int directory = open_directory(), fd;

	close(touch(directory, left));
	close(touch(directory, unfinished));
	close(touch(directory, of_job));
	close(touch(directory, "here.segment"));
	close(touch(directory, no_ring));
	fd = touch(directory, in_use);
	ck_assert_int_eq(rings_remove_left(directory), 2);
	ck_assert_int_ne(faccessat(directory, left, F_OK, 0), 0);
	ck_assert_int_ne(faccessat(directory, unfinished, F_OK, 0), 0);
	ck_assert_int_eq(faccessat(directory, in_use, F_OK, 0), 0);
	ck_assert_int_eq(faccessat(directory, of_job, F_OK, 0), 0);
	ck_assert_int_eq(faccessat(directory, no_ring, F_OK, 0), 0);
	close(fd);
	ck_assert_int_eq(rings_remove_left(directory), 1);
	close(directory);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ring");
	TCase *tests = tcase_create("ring");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, what_is_written_is_read);
	tcase_add_test(tests, without_a_ring_nothing_is_evaluated);
	tcase_add_test(tests, each_record_is_handed_out_once);
	tcase_add_test(tests, what_is_overwritten_is_counted);
	tcase_add_loop_test(tests, a_record_that_is_overwritten_between_copies_is_lost, 0, 3);
	tcase_add_test(tests, a_record_that_is_finished_between_copies_is_for_the_next_time);
	tcase_add_test(tests, of_eight_writers_no_record_is_torn_and_each_loss_is_counted);
	tcase_add_test(tests, a_killed_writer_leaves_at_most_one_torn_record);
	tcase_add_test(
	    tests, a_record_that_is_never_finished_is_skipped_and_no_later_one_is_mixed_with_it);
	tcase_add_test(tests, the_last_records_are_left_until_their_writers_have_finished);
	tcase_add_test(tests, a_ring_grows_before_its_places_are_used_again);
	tcase_add_test(tests, a_ring_that_cannot_grow_keeps_the_latest);
	tcase_add_test(tests, a_ring_grows_though_the_record_is_lost);
	tcase_add_loop_test(tests, a_ring_is_made_when_there_is_something_to_write, 0, 2);
	tcase_add_test(tests, another_reader_goes_on_where_one_has_ended);
	tcase_add_test(tests, a_damaged_state_changes_nothing);
	tcase_add_test(tests, a_reader_that_waits_can_be_cancelled);
	tcase_add_test(tests, rings_go_with_their_job);
	tcase_add_test(tests, of_a_run_with_many_processes_the_last_rings_stay);
	tcase_add_test(tests, a_ring_is_made_whole_or_not_at_all);
	tcase_add_test(tests, names_of_rings_are_read_strictly);
	tcase_add_test(tests, what_does_not_fit_is_refused);
	tcase_add_test(tests, a_ring_that_is_swapped_while_it_is_read_is_refused);
	tcase_add_test(tests, records_that_are_none_are_counted_as_lost);
	suite_add_tcase(suite, tests);
	tests = tcase_create("rings left");
	tcase_add_checked_fixture(tests, setup_in_memory, teardown);
	tcase_add_test(tests, rings_without_a_job_are_removed_when_no_process_has_them);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
