/* SPDX-License-Identifier: MIT */
/*
 * Reading rings.
 *
 * A record is copied between two copies of its sequence number: if both say that it is whole and of
 * the wanted ticket, so is the copy. The file may change at any time, by every process that can
 * write to it. Nothing read from it is believed before it was compared, and compared values are not
 * read again.
 */
#include "tools/view/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "core/rings/ring_layout.h"
#include "core/state/directory.h"

/* A reader's knowledge of rings: its place in each, and the unit at hand. Private. */

enum { BATCH = 256 };

/* The reader's knowledge of one ring. */
struct known {
	struct known *next;
	struct ring_id id;
	struct ring_source source;
	uint64_t position;
};

struct ring_reader {
	int directory;
	struct known *known;
	uint64_t produced, completed, lost;
	_Atomic bool is_cancelled;

	/* The unit at hand; fd is -1 between two. */
	int fd;
	struct known *unit;
	uint64_t end;       /* the ticket it is read up to */
	uint64_t room;      /* records, as it was when the unit was opened */
	uint64_t lost_here; /* not yet told */
	uint64_t last_begin;

	/* A batch, copied. */
	int copied, taken;
	enum { WHOLE, UNFINISHED, GONE } state[BATCH];
	struct ring_record record[BATCH], other[BATCH];
	uint64_t before[BATCH];
};

/* Returns where the ring stands in the list, or the end of it. */
static struct known **ring_known_find(struct known **list, const struct ring_id *id)
{
	while (*list && ((*list)->id.pid != id->pid || (*list)->id.started_ns != id->started_ns ||
	                 strcmp((*list)->id.job, id->job) != 0))
		list = &(*list)->next;
	return list;
}

/* Enters it if need be. NULL: no memory. */
static struct known *ring_known_meet(struct known **list, const struct ring_id *id)
{
	struct known **place = ring_known_find(list, id);

	if (!*place) {
		*place = calloc(1, sizeof **place);
		if (*place)
			(*place)->id = *id;
	}
	return *place;
}

/* Places in rings, and their text form, by which one reader goes on where another was. */

enum { RINGS_MOST = 65536 };

static const char first_line[] = "spillway ring reader 1";

char *ring_reader_serialize_state(const struct ring_reader *reader)
{
	char name[RING_NAME_MAX], *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	fprintf(out, "%s\nproduced %" PRIu64 "\ncompleted %" PRIu64 "\nlost %" PRIu64 "\n",
	        first_line, reader->produced, reader->completed, reader->lost);
	for (const struct known *known = reader->known; known; known = known->next) {
		ring_name(&known->id, name, sizeof name);
		if (faccessat(reader->directory, name, F_OK, 0) == 0)
			fprintf(out, "ring %s %" PRIu64 "\n", name, known->position);
	}
	fputs("end\n", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Parses "KEY NUMBER", written exactly so. */
static bool parse_count(const char *line, const char *key, uint64_t *value)
{
	char again[64];

	if (strncmp(line, key, strlen(key)) != 0)
		return false;
	*value = strtoull(line + strlen(key), NULL, 10);
	snprintf(again, sizeof again, "%s%" PRIu64, key, *value);
	return strcmp(line, again) == 0;
}

static bool parse_ring(char *line, struct known **list)
{
	char *number = strrchr(line, ' ');
	struct known *known;
	struct ring_id id;
	uint64_t position;

	if (strncmp(line, "ring ", 5) != 0 || number < line + 5 ||
	    !parse_count(number, " ", &position))
		return false;
	*number = '\0';
	if (!ring_name_parse(line + 5, &id) || *ring_known_find(list, &id))
		return false;
	known = ring_known_meet(list, &id);
	if (known)
		known->position = position;
	return known;
}

/* Returns the text between two newlines, each in its turn; NULL: no more. */
static char *ring_read_next_line(char **rest)
{
	char *line = *rest, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*rest = end + 1;
	return line;
}

static bool parse_state(char *text, struct ring_reader *to)
{
	const char *line = ring_read_next_line(&text);

	if (!line || strcmp(line, first_line) != 0)
		return false;
	if (!(line = ring_read_next_line(&text)) ||
	    !parse_count(line, "produced ", &to->produced) ||
	    !(line = ring_read_next_line(&text)) ||
	    !parse_count(line, "completed ", &to->completed) ||
	    !(line = ring_read_next_line(&text)) || !parse_count(line, "lost ", &to->lost))
		return false;
	for (int rings = 0; rings < RINGS_MOST; rings++) {
		char *ring = ring_read_next_line(&text);

		if (ring && strcmp(ring, "end") == 0)
			return *text == '\0';
		if (!ring || !parse_ring(ring, &to->known))
			return false;
	}
	return false;
}

int ring_reader_restore_state(struct ring_reader *reader, const char *state, char *message,
                              size_t size)
{
	struct ring_reader *read = ring_reader_create(-1);
	char *text = strdup(state);
	int error = 0;

	if (!read || !text) {
		error = state_refuse(-ENOMEM, message, size, "%s", strerror(ENOMEM));
	} else if (!parse_state(text, read)) {
		error = state_refuse(-EINVAL, message, size,
		                     "not the state of a reader of events, or damaged");
	} else {
		struct known *list = read->known;

		ring_reader_reset(reader);
		reader->known = list;
		reader->produced = read->produced;
		reader->completed = read->completed;
		reader->lost = read->lost;
		read->known = NULL;
	}
	free(text);
	ring_reader_destroy(read);
	return error;
}

#define SLICE_NS 20000000ull /* between two looks at whether it was cancelled */

struct ring_reader *ring_reader_create(int directory)
{
	struct ring_reader *reader = calloc(1, sizeof *reader);

	if (!reader) {
		close(directory);
		return NULL;
	}
	reader->directory = directory;
	reader->fd = -1;
	return reader;
}

static void leave_unit(struct ring_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
	reader->unit = NULL;
	reader->copied = reader->taken = 0;
	reader->lost_here = 0;
}

void ring_reader_reset(struct ring_reader *reader)
{
	leave_unit(reader);
	for (struct known *known = reader->known, *next; known; known = next) {
		next = known->next;
		free(known);
	}
	reader->known = NULL;
	reader->produced = reader->completed = reader->lost = 0;
	atomic_store(&reader->is_cancelled, false);
}

void ring_reader_destroy(struct ring_reader *reader)
{
	if (!reader)
		return;
	ring_reader_reset(reader);
	close(reader->directory);
	free(reader);
}

void ring_reader_cancel(struct ring_reader *reader)
{
	atomic_store(&reader->is_cancelled, true);
}

uint64_t ring_reader_produced(const struct ring_reader *reader)
{
	return reader->produced;
}

uint64_t ring_reader_lost(const struct ring_reader *reader)
{
	return reader->lost;
}

/* --- one work unit --- */

static bool ring_read_is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

/* Checks a ring's header. Returns 0, or a negative errno and message. */
static int check_header(const struct ring_header *header, const struct ring_id *id, off_t file_size,
                        const char *name, char *message, size_t size)
{
	enum shared_fit fit = shared_file_fits(&ring_format, header, header->size);

	if (fit == SHARED_OTHER_KIND)
		return state_refuse(-EPROTO, message, size, "%s: not a ring of events", name);
	if (fit == SHARED_OTHER_VERSION)
		return state_refuse(-EPROTO, message, size,
		                    "%s: events of version %u, expected version %d", name,
		                    header->version, RING_VERSION);
	if (fit == SHARED_OTHER_SIZE || file_size != sizeof(struct ring_file))
		return state_refuse(-EPROTO, message, size, "%s: %lld bytes, expected %zu: damaged",
		                    name, (long long)file_size, sizeof(struct ring_file));
	if ((header->records != RING_RECORDS && header->records != RING_RECORDS_FIRST) ||
	    !ring_read_is_terminated(header->boot_id, SEGMENT_BOOT_ID_MAX) ||
	    !ring_read_is_terminated(header->command, sizeof header->command) ||
	    strncmp(header->job, id->job, sizeof header->job) != 0 || header->pid != id->pid ||
	    header->started_ns != id->started_ns)
		return state_refuse(-EPROTO, message, size, "%s: its header is damaged", name);
	if (!segment_is_of_this_boot(header->boot_id))
		return state_refuse(-ESTALE, message, size, "%s: of an earlier boot", name);
	return 0;
}

static void describe_source(struct known *unit, const struct ring_header *header)
{
	struct ring_source *source = &unit->source;

	memcpy(source->job, unit->id.job, sizeof source->job);
	memcpy(source->command, header->command, sizeof source->command);
	printable(source->command);
	source->pid = unit->id.pid;
	source->started_ns = unit->id.started_ns;
	for (int i = 0; i < SEGMENT_DEVICES; i++)
		source->device[i] = header->device[i] >= 0 && header->device[i] < SEGMENT_DEVICES
		                        ? header->device[i]
		                        : -1;
	source->realtime_offset_ns = (int64_t)(header->realtime_ns - header->monotonic_ns);
}

static void lose(struct ring_reader *reader, uint64_t count)
{
	reader->unit->position += count;
	reader->lost_here += count;
	reader->lost += count;
}

/*
 * Checks that the unit at hand is still the ring it was. Returns 0, or a negative errno and
 * message.
 */
static int check_unit(struct ring_reader *reader, struct ring_header *header,
                      const struct ring_id *id, char *message, size_t size)
{
	char name[RING_NAME_MAX];
	struct stat found;
	ssize_t length = 0;

	ring_name(id, name, sizeof name);
	if (file_status_of(reader->fd, &found) != 0)
		return state_refuse(-errno, message, size, "%s: %s", name, strerror(errno));
	if (S_ISREG(found.st_mode))
		length = pread(reader->fd, header, sizeof *header, 0);
	if (length != sizeof *header)
		return state_refuse(-EPROTO, message, size, "%s: not a ring of events", name);
	return check_header(header, id, found.st_size, name, message, size);
}

static int open_unit(struct ring_reader *reader, const char *name, char *message, size_t size)
{
	struct ring_header header = {0};
	struct ring_id id;
	int error;

	if (!ring_name_parse(name, &id))
		return state_refuse(-EPROTO, message, size, "%s: not the name of a ring", name);
	/* NONBLOCK: it might be a pipe */
	reader->fd =
	    openat(reader->directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (reader->fd < 0)
		return state_refuse(-errno, message, size, "%s: %s", name, strerror(errno));
	error = check_unit(reader, &header, &id, message, size);
	if (error)
		return error;
	reader->unit = ring_known_meet(&reader->known, &id);
	if (!reader->unit)
		return state_refuse(-ENOMEM, message, size, "%s: %s", name, strerror(ENOMEM));
	describe_source(reader->unit, &header);
	reader->end = header.next;
	if (reader->end < reader->unit->position) {
		reader->unit->position = reader->end;
		return state_refuse(-EPROTO, message, size, "%s: has fewer records than before",
		                    name);
	}
	reader->room = header.records;
	if (reader->end - reader->unit->position > reader->room)
		lose(reader, reader->end - reader->unit->position - reader->room);
	return 0;
}

/*
 * Copies records out of the file as it is at this moment, with any contents. Returns 0 or a
 * negative errno.
 */
static int ring_read_copy(struct ring_reader *reader, struct ring_record *to, int count)
{
	uint64_t first = reader->unit->position % reader->room;
	off_t at = (off_t)(offsetof(struct ring_file, record) + first * sizeof *to);
	ssize_t bytes = (ssize_t)((size_t)count * sizeof *to);
	ssize_t length = pread(reader->fd, to, (size_t)bytes, at);

	/* the next copy is younger */
	atomic_thread_fence(memory_order_seq_cst);
	return length == bytes ? 0 : length < 0 ? -errno : -EPROTO;
}

/* Copies the next records and classifies each. */
static int copy_batch(struct ring_reader *reader, int count)
{
	int error = ring_read_copy(reader, reader->other, count);

	for (int i = 0; !error && i < count; i++)
		reader->before[i] = reader->other[i].sequence;
	if (!error)
		error = ring_read_copy(reader, reader->record, count);
	if (!error)
		error = ring_read_copy(reader, reader->other, count);
	for (int i = 0; !error && i < count; i++) {
		uint64_t whole = 2 * (reader->unit->position + (uint64_t)i) + 2;
		uint64_t after = reader->other[i].sequence;

		reader->state[i] = after > whole                                  ? GONE
		                   : after == whole && reader->before[i] == whole ? WHOLE
		                                                                  : UNFINISHED;
	}
	return error;
}

/* Returns how many records there are up to the last one that its writer has finished. */
static int up_to_finished(const struct ring_reader *reader, int count)
{
	while (count > 0 && reader->state[count - 1] == UNFINISHED)
		count--;
	return count;
}

/* Makes a batch of the rest of the unit. Returns 0 or a negative errno and message. */
static int ring_read_fill(struct ring_reader *reader, char *message, size_t size)
{
	uint64_t left = reader->end - reader->unit->position;
	uint64_t to_turn = reader->room - reader->unit->position % reader->room;
	int count = (int)(left < to_turn ? left : to_turn), error;
	struct ring_header header = {0};

	if (count > BATCH)
		count = BATCH;
	error = copy_batch(reader, count);
	if (error)
		return state_refuse(error, message, size, "ring of process %d: %s",
		                    reader->unit->id.pid,
		                    error == -EPROTO ? "cut short" : strerror(-error));
	error = check_unit(reader, &header, &reader->unit->id, message, size);
	if (error)
		return error;
	/*
	 * A record that is not finished, though later ones are, was dropped or its writer killed:
	 * it is lost. The last ones may need a moment, and are for the next time.
	 */
	reader->copied = count;
	if ((uint64_t)count == left) {
		reader->copied = up_to_finished(reader, count);
		reader->end = reader->unit->position + (uint64_t)reader->copied;
	}
	reader->taken = 0;
	return 0;
}

/* Reads a record as an event. Returns whether it is one; any process may have made it. */
static bool read_event(const struct ring_record *record, struct event *event)
{
	uint64_t what = record->what;
	unsigned int kind = what & 0xffff;
	int device = (int16_t)(what >> 16);

	if (kind >= EVENT_KINDS || device < EVENT_NO_DEVICE || device >= SEGMENT_DEVICES)
		return false;
	*event = (struct event){.kind = (enum event_kind)kind,
	                        .device = device,
	                        .begin_ns = record->begin_ns,
	                        .duration_ns = record->duration_ns,
	                        .a = record->value[0],
	                        .b = record->value[1],
	                        .c = record->value[2],
	                        .object = record->object,
	                        .context = (uint32_t)(what >> 32)};
	return true;
}

static void tell_lost(struct ring_reader *reader, struct ring_entry *entry, uint64_t begin_ns)
{
	*entry = (struct ring_entry){
	    .source = &reader->unit->source,
	    .lost = reader->lost_here,
	    .event = {.device = EVENT_NO_DEVICE, .begin_ns = begin_ns},
	};
	reader->lost_here = 0;
}

/*
 * Finds the next entry of the unit at hand. Returns 1: an entry; 0: the unit is done; or a negative
 * errno.
 */
static int next_of_unit(struct ring_reader *reader, struct ring_entry *entry, char *message,
                        size_t size)
{
	struct event event;

	for (;;) {
		if (reader->taken == reader->copied) {
			int error;

			if (reader->unit->position == reader->end)
				break;
			error = ring_read_fill(reader, message, size);
			if (error && !reader->lost_here)
				return error;
			if (error)
				break; /* told first; then it is met again */
			if (atomic_load(&reader->is_cancelled))
				return -ECANCELED;
			if (!reader->copied)
				continue;
		}
		if (reader->state[reader->taken] != WHOLE ||
		    !read_event(&reader->record[reader->taken], &event)) {
			reader->taken++;
			lose(reader, 1);
			continue;
		}
		if (reader->lost_here) {
			tell_lost(reader, entry, event.begin_ns);
			return 1;
		}
		reader->taken++;
		reader->unit->position++;
		reader->produced++;
		reader->last_begin = event.begin_ns;
		*entry = (struct ring_entry){.source = &reader->unit->source, .event = event};
		return 1;
	}
	if (!reader->lost_here)
		return 0;
	tell_lost(reader, entry, reader->last_begin);
	return 1;
}

/* --- reading --- */

/*
 * Takes the next unit. Returns 0: there is one at hand; 1: no more work; else as
 * ring_reader_read_up_to().
 */
static int next_unit(struct ring_reader *reader, struct queue *work, struct deadline *until,
                     char *message, size_t size)
{
	void *item;
	int error;

	do {
		uint64_t left = deadline_left(until);

		if (atomic_load(&reader->is_cancelled))
			return -ECANCELED;
		error = queue_take(work, &item, left < SLICE_NS ? left : SLICE_NS);
	} while (error == -ETIMEDOUT && !deadline_has_passed(until));
	if (error)
		return 1;
	error = open_unit(reader, item, message, size);
	free(item);
	if (error)
		leave_unit(reader);
	return error;
}

int ring_reader_read_up_to(struct ring_reader *reader, struct queue *work, struct ring_entry *entry,
                           int n, uint64_t patience_ns, char *message, size_t size)
{
	struct deadline until = DEADLINE_IN(patience_ns);
	int count = 0;

	while (count < n) {
		int got;

		if (atomic_load(&reader->is_cancelled))
			return count ? count : -ECANCELED;
		if (!reader->unit) {
			if (count)
				break; /* the events that are there, before waiting */
			got = next_unit(reader, work, &until, message, size);
			if (got)
				return got > 0 ? 0 : got;
		}
		got = next_of_unit(reader, &entry[count], message, size);
		if (got > 0) {
			count++;
			continue;
		}
		if (got < 0 && count)
			return count; /* the fault will be there then, too */
		if (got == 0)
			reader->completed++;
		if (got != -ECANCELED)
			leave_unit(reader);
		if (got < 0)
			return got;
	}
	return count;
}
