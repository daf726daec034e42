/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the reader of rings.
 *
 * Input: first byte 0: the rest is the state of a reader, as text. Else the input changes a ring
 * that is good. Bytes 1 and 2 are its length, as a fraction of the right one. Changes follow
 * (changes.h).
 *
 * Nothing may crash or hang with any file. Each event that is handed out is a real one. Of all
 * records that the file claims none is missing in the counts.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rings/ring_layout.h"
#include "tools/view/ring_reader.h"
#include "tests/fuzz/changes.h"

static const struct ring_id id = {.job = "fuzz", .pid = 7, .started_ns = 99};
static struct ring_file good;
static char folder[256], name[RING_NAME_MAX];
static int directory, file;

static void set_up(void)
{
	const char *tmp = getenv("TMPDIR");
	struct ring_header *header = &good.header;

	snprintf(folder, sizeof folder, "%s/fuzz-ring-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder) || (directory = open(folder, O_RDONLY | O_DIRECTORY)) < 0)
		abort();
	ring_name(&id, name, sizeof name);
	file = openat(directory, name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0)
		abort();
	memcpy(header->magic, RING_MAGIC, sizeof header->magic);
	header->version = RING_VERSION;
	header->records = RING_RECORDS;
	header->size = sizeof good;
	strcpy(header->job, id.job);
	header->pid = id.pid;
	header->started_ns = id.started_ns;
	header->next = 300;
	for (uint64_t i = 0; i < header->next; i++) {
		struct event event = {.kind = (enum event_kind)(i % EVENT_KINDS)};

		good.record[i].sequence = 2 * i + 2;
		good.record[i].begin_ns = i;
		good.record[i].what = ring_pack(&event);
	}
	if (pwrite(file, &good, sizeof good, 0) != sizeof good)
		abort();
}

static void clean_up(void)
{
	unlinkat(directory, name, 0);
	rmdir(folder);
	close(file);
	close(directory);
}

static void read_ring(void)
{
	struct queue *work = queue_create(1);
	struct ring_reader *reader = ring_reader_create(dup(directory));
	struct ring_entry entry[50];
	char message[256];
	uint64_t events = 0, lost = 0, said = 0;
	int n;

	if (!work || !reader || queue_put(work, strdup(name), 0) != 0)
		abort();
	while ((n = ring_reader_read_up_to(reader, work, entry, 50, 0, message, sizeof message)) >
	       0) {
		for (int i = 0; i < n; i++) {
			if (entry[i].lost)
				lost += entry[i].lost;
			else if (entry[i].event.kind < EVENT_KINDS &&
			         entry[i].event.device < SEGMENT_DEVICES)
				events++;
			else
				abort();
		}
	}
	if (events != ring_reader_produced(reader) || lost != ring_reader_lost(reader) ||
	    events > RING_RECORDS)
		abort();
	if (n == 0 && (pread(file, &said, sizeof said, offsetof(struct ring_header, next)) < 0 ||
	               said - (events + lost) > 256)) /* the last may not be finished */
		abort();
	ring_reader_destroy(reader);
	queue_destroy(work, free);
}

/* Reads a state; one that is accepted is written again, and that is accepted too. */
static void read_state(const uint8_t *data, size_t size)
{
	struct ring_reader *reader = ring_reader_create(dup(directory));
	char *text = strndup((const char *)data, size), *again;

	if (!reader || !text)
		abort();
	if (ring_reader_restore_state(reader, text, NULL, 0) == 0) {
		again = ring_reader_serialize_state(reader);
		if (!again || ring_reader_restore_state(reader, again, NULL, 0) != 0)
			abort();
		free(again);
	}
	free(text);
	ring_reader_destroy(reader);
}

static void ring_run(const uint8_t *data, size_t size)
{
	struct changed_file ring = {0, &good, sizeof good, offsetof(struct ring_file, record),
	                            300 * 64};
	size_t length;

	if (!directory) {
		set_up();
		atexit(clean_up);
	}
	if (size < 3)
		return;
	if (data[0] == 0) {
		read_state(data + 1, size - 1);
		return;
	}
	ring.fd = file;
	length = changes_length(&ring, data + 1);
	changes_apply(&ring, data + 3, size - 3, false);
	if (length != sizeof good && ftruncate(file, (off_t)length) != 0)
		abort();
	read_ring();
	if (length != sizeof good)
		changes_put(&ring, 0, &good, sizeof good);
	changes_apply(&ring, data + 3, size - 3, true);
}

/* Where a change is likely to matter: the header, the places of records, anywhere. */
static uint32_t ring_offset(void)
{
	uint64_t number = fuzz_random();

	switch (number % 4) {
	case 0:
		return number >> 8 & 0xff;
	case 1:
		return (uint32_t)offsetof(struct ring_header, next) + (number >> 8) % 8;
	case 2:
		return (uint32_t)(offsetof(struct ring_file, record) + (number >> 8) % (300 * 64));
	default:
		return number >> 8 & 0xffffff;
	}
}

static size_t ring_good(uint8_t input[FUZZ_INPUT_MAX])
{
	input[0] = 1;
	return 1 + changes_none(input + 1);
}

static size_t ring_change(uint8_t input[FUZZ_INPUT_MAX])
{
	input[0] = 1;
	return 1 + changes_make(input + 1, ring_offset);
}

const struct fuzz_target fuzz_ring = {
    .name = "ring",
    .reads = "rings of events, and with a first byte of 0 states of their reader",
    .run = ring_run,
    .good = ring_good,
    .change = ring_change,
    .rounds = 3000,
};

static size_t ring_good_state(uint8_t input[FUZZ_INPUT_MAX])
{
	static const char text[] = "spillway ring reader 1\nproduced 5\ncompleted 2\nlost 1\n"
	                           "ring job.7-00000000000000ff.events 44\n"
	                           "ring fuzz.7-0000000000000063.events 300\nend\n";

	input[0] = 0;
	memcpy(input + 1, text, sizeof text - 1);
	return sizeof text;
}

static size_t ring_change_state(uint8_t input[FUZZ_INPUT_MAX])
{
	size_t size = ring_good_state(input);

	for (uint64_t changes = fuzz_random() % 3; changes > 0; changes--)
		input[1 + fuzz_random() % (size - 1)] =
		    (uint8_t) "\n 0129-.xr\xff"[fuzz_random() % 11];
	return 1 + fuzz_random() % size;
}

const struct fuzz_target fuzz_ring_state = {
    .name = "ring_state",
    .reads = "states of the reader of rings",
    .run = ring_run,
    .good = ring_good_state,
    .change = ring_change_state,
    .rounds = 20000,
};
