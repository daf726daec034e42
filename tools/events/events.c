/* SPDX-License-Identifier: MIT */
/*
 * spillway events: the events of all processes of a job, or of all jobs, from their rings.
 *
 * It reads in rounds: each round lists the rings, so that those of new processes are found, reads
 * the events since the last one, and shows them in order of time. A round is shown whole, and each
 * line is one write(2): an interrupt ends the tool between two rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/state/directory.h"
#include "core/registry/registry.h"
#include "tools/events/events.h"
#include "tools/events/event_places.h"
#include "tools/formats/event_words.h"
#include "tools/formats/output.h"
#include "tools/formats/trace.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

enum {
	ROUND_NS = 200000000,
	LOOK = 5, /* rounds from one to the next in which new places are looked for */
	WORK_MAX = 64,
	AT_ONCE = 256,
	STATE_MAX = 16 << 20,
};

#define LIVE_NS 60000000000ull

struct events_options {
	const char *job, *resource, *state, *trace;
	bool follow, json;
	bool is_live; /* without any choice: the last minute, and on from there */
	bool has_since;
	uint32_t kinds;    /* bits by enum event_kind; 0: all */
	uint64_t since_ns; /* CLOCK_MONOTONIC */
};

/* Parses a time of day or a date as it is written; a missing part is today's, or 0. */
static bool parse_date(const char *text, uint64_t *ns)
{
	static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
	                                      "%Y-%m-%d %H:%M", "%H:%M:%S", "%H:%M"};
	time_t now = time(NULL), then;
	uint64_t seconds;

	if (*text == '@') {
		if (units_parse_count(text + 1, &seconds) != 0 || seconds > INT64_MAX / 1000000000)
			return false;
		*ns = seconds * 1000000000;
		return true;
	}
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		struct tm date;
		const char *end;

		localtime_r(&now, &date);
		date.tm_sec = 0;
		date.tm_isdst = -1;
		end = strptime(text, formats[i], &date);
		if (!end || *end)
			continue;
		then = mktime(&date);
		if (then < 0 || then > INT64_MAX / 1000000000)
			return false;
		*ns = (uint64_t)then * 1000000000;
		return true;
	}
	return false;
}

static void take_since(const struct argument *argument, const char *text)
{
	struct events_options *events = argument->into;
	uint64_t monotonic = clock_now(), realtime = clock_of_day(), ago, then;

	if (units_parse_duration(text, &ago) != 0) {
		if (!parse_date(text, &then))
			usage_error(
			    "--since '%s': expected a time that has passed, such as 30s, a time of "
			    "day, a date and time, or @SECONDS since 1970",
			    text);
		ago = then < realtime ? realtime - then : 0;
	}
	events->has_since = true;
	events->since_ns = ago < monotonic ? monotonic - ago : 0;
}

static void take_kinds(const struct argument *argument, const char *text)
{
	uint32_t *kinds = argument->into;

	for (const char *word = text, *end;; word = end + 1) {
		size_t length = strcspn(word, ",");
		int kind = 0;

		while (kind < EVENT_KINDS && (strncmp(event_words[kind].name, word, length) != 0 ||
		                              event_words[kind].name[length]))
			kind++;
		if (kind == EVENT_KINDS)
			usage_error("--kind '%s': expected kinds of events with commas between "
			            "them, such as limit,configuration",
			            text);
		*kinds |= UINT32_C(1) << kind;
		end = word + length;
		if (!*end)
			return;
	}
}

/* Returns whether a handle may begin so: with as many of its parts as there are. */
static bool begins_handle(const char *text)
{
	static const char *const kinds[] = {"/job:", "/process:", "/gpu:", "/", "/", "/"};
	size_t part = 0, kind, length;
	char name[REGISTRY_HANDLE_MAX];

	for (; part < sizeof kinds / sizeof *kinds && (*text || part == 0); part++) {
		kind = strlen(kinds[part]);
		if (strncmp(text, kinds[part], kind) != 0)
			return false;
		text += kind;
		length = strcspn(text, "/");
		if (!length || length >= sizeof name)
			return false;
		memcpy(name, text, length);
		name[length] = '\0';
		if (part == 0 ? directory_check_name(name) != 0
		              : part < 3 && strspn(name, "0123456789") != length)
			return false;
		text += length;
	}
	return !*text;
}

static void take_resource(const struct argument *argument, const char *text)
{
	if (!begins_handle(text))
		usage_error("--resource '%s': expected a handle, such as "
		            "/job:bert/process:4711/gpu:0/ctx1/allocation/00007f0000000000, or its "
		            "first parts",
		            text);
	argument_text(argument, text);
}

static void events_read_command_line(struct events_options *events, int argc, char **argv)
{
	const struct argument options[] = {
	    {"follow", 'f', NULL, "Go on with what happens from now on, also with --since",
	     argument_flag, &events->follow},
	    {"since", 0, "TIME",
	     "What happened since then, and end: 30s, 5m, 12:30, \"2026-11-22 12:30:00\", @SECONDS",
	     take_since, events},
	    {"kind", 0, "KIND,...",
	     "Only events of these kinds: limit,share,configuration shows each change", take_kinds,
	     &events->kinds},
	    {"resource", 0, "HANDLE",
	     "Only events of this handle: /job:bert/process:4711/gpu:0/ctx1/allocation/..., or a "
	     "beginning of that",
	     take_resource, &events->resource},
	    {"state", 0, "FILE", "Go on where the last one with this file has ended", argument_file,
	     &events->state},
	    {"json", 0, NULL, "One JSON document per line", argument_flag, &events->json},
	    {"chrome-trace", 0, "FILE",
	     "Write a trace for Perfetto or chrome://tracing instead of lines", argument_file,
	     &events->trace},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway events",
	    .operands = "[JOB]",
	    .about = "Shows what happened when: bursts of work, idle slots, moves of memory, "
	             "spills, changes of limits and more, of all processes of a job, or of all "
	             "jobs. Without --since, --state and --chrome-trace it shows the last minute "
	             "and follows.",
	    .options = options,
	};

	events->job = arguments_job(arguments_read(&line, argc, argv), false);
	if (events->json && events->trace)
		usage_error("--json and --chrome-trace: expected one of them");
	events->is_live = !events->has_since && !events->state && !events->trace;
	if (events->is_live) {
		uint64_t now = clock_now();

		events->has_since = true;
		events->since_ns = now > LIVE_NS ? now - LIVE_NS : 0;
	}
}

/* --- an interrupt --- */

static volatile sig_atomic_t interrupted;
static struct event_places *places;

static void interrupt(int number)
{
	interrupted = number;
	event_places_cancel(places);
}

static void catch_interrupts(void)
{
	/*
	 * A second one ends the tool wherever it is. A signal that a shell has us ignore stays
	 * ignored.
	 */
	struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};
	static const int signals[] = {SIGINT, SIGTERM};
	struct sigaction before;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

/* --- state --- */

static void events_restore(struct ring_reader *reader, const char *path)
{
	char *state, message[256] = "";
	struct target target;
	FILE *file;
	size_t length;

	if (!output_find(path, &target))
		exit(TOOL_FAILED);
	if (target.kind == TARGET_NEW)
		return; /* the first time */
	if (target.kind != TARGET_FILE)
		fail("%s: expected a file, which is written anew at each end and read at the "
		     "next beginning",
		     path);
	file = output_read(&target);
	if (!file)
		exit(TOOL_FAILED);
	state = allocate(STATE_MAX + 1);
	length = fread(state, 1, STATE_MAX, file);
	if (ferror(file))
		fail("%s: %s", path, strerror(errno));
	fclose(file);
	if (strlen(state) != length ||
	    ring_reader_restore_state(reader, state, message, sizeof message) != 0)
		fail("%s: %s", path, message[0] ? message : "not the state of a reader of events");
	free(state);
}

/* Saves the reader's state where it says something else than before. */
static void events_save(const struct ring_reader *reader, const char *path)
{
	static uint64_t saved = UINT64_MAX;
	uint64_t met = ring_reader_produced(reader) + ring_reader_lost(reader);
	struct output file;
	char *state;

	if (met == saved)
		return;
	saved = met;
	state = ring_reader_serialize_state(reader);

	if (!state)
		fail("out of memory");
	if (!output_begin(&file, path, 0600))
		exit(TOOL_FAILED);
	fputs(state, file.out);
	if (!output_end(&file))
		exit(TOOL_FAILED);
	free(state);
}

/* --- one round --- */

struct round {
	const struct events_options *events;
	struct queue *work;
	const struct event_place *at; /* the place of its rings */
	struct kept {
		struct ring_entry entry;
		const char *user;
		char *holders; /* of a refusal; NULL: not known */
		size_t order;  /* in which it was read */
	} * kept;
	size_t count, room;
	struct faults {
		struct faults *next;
		char *message;
	} * faults; /* said already */
	bool failed;
};

/* Complains of something once, however many rounds meet it. */
static void complain_once(struct round *round, const char *message)
{
	struct faults *fault = round->faults;

	round->failed = true;
	while (fault && strcmp(fault->message, message) != 0)
		fault = fault->next;
	if (fault)
		return;
	fault = allocate(sizeof *fault);
	fault->message = text("%s", message);
	fault->next = round->faults;
	round->faults = fault;
	complain("%s", message);
}

static bool events_is_wanted(const struct events_options *events, const struct ring_entry *entry)
{
	char path[REGISTRY_HANDLE_MAX];
	uint64_t end = entry->event.begin_ns;
	size_t length;

	if (entry->lost)
		return true;
	if (events->kinds && !(events->kinds >> entry->event.kind & 1))
		return false;
	if (event_words[entry->event.kind].is_span)
		end = end > UINT64_MAX - entry->event.duration_ns ? UINT64_MAX
		                                                  : end + entry->event.duration_ns;
	if (events->has_since && end < events->since_ns)
		return false;
	if (!events->resource)
		return true;
	event_path(entry, path, sizeof path);
	length = strlen(events->resource);
	return strncmp(path, events->resource, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/');
}

/* A process keeps one line a second, with the time of its event, to some milliseconds. */
#define LINES_APART_NS 1000000000ull
#define SAME_NS        20000000ull

/* Returns whether a line of JOB.refused (core/modules/holders) is about this refusal. */
static bool events_is_line_of(const char *line, const struct ring_entry *entry)
{
	struct tm date = {0};
	const char *rest = strptime(line, "%Y-%m-%d %H:%M:%S", &date);
	uint64_t at = event_time(entry), then;
	unsigned int milliseconds;
	int process;

	if (!rest || sscanf(rest, ".%3u UTC: process %d,", &milliseconds, &process) != 2 ||
	    process != entry->source->pid)
		return false;
	then = (uint64_t)timegm(&date) * 1000000000 + milliseconds * UINT64_C(1000000);
	return (at > then ? at - then : then - at) < SAME_NS;
}

/* Returns the holders that the job's process noted with a refusal. NULL: none, or no refusal. */
static char *events_find_holders(int directory, const struct ring_entry *entry)
{
	static struct {
		uint64_t at;
		int process;
	} last;
	static const char begin[] = "Largest holders: ";
	uint64_t at = event_time(entry);
	char path[NAME_MAX], line[1024], *holders = NULL;
	const char *part;
	FILE *in;
	int fd;

	if (entry->lost || entry->event.kind != EVENT_refusal ||
	    (last.process == entry->source->pid && at > last.at + SAME_NS &&
	     at < last.at + LINES_APART_NS - SAME_NS))
		return NULL;
	snprintf(path, sizeof path, "%s.refused", entry->source->job);
	fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	in = fd < 0 ? NULL : fdopen(fd, "r");
	while (in && !holders && fgets(line, sizeof line, in))
		if (events_is_line_of(line, entry) && (part = strstr(line, begin)) != NULL)
			holders = text("%.*s", (int)strcspn(part + sizeof begin - 1, "\n"),
			               part + sizeof begin - 1);
	if (in)
		fclose(in);
	if (holders) {
		last.at = at;
		last.process = entry->source->pid;
		printable(holders);
	}
	return holders;
}

static void events_keep(struct round *round, const struct ring_entry *entry)
{
	if (round->count == round->room) {
		size_t room = round->room ? 2 * round->room : 1024;
		struct kept *grown = realloc(round->kept, room * sizeof *grown);

		if (!grown)
			fail("out of memory");
		round->kept = grown;
		round->room = room;
	}
	round->kept[round->count] =
	    (struct kept){*entry, round->at->user, events_find_holders(round->at->directory, entry),
	                  round->count};
	round->count++;
}

/* Reads all items in the queue. */
static void read_work(struct round *round)
{
	struct ring_entry entry[AT_ONCE];
	char message[512];
	int n;

	for (;;) {
		n = ring_reader_read_up_to(round->at->reader, round->work, entry, AT_ONCE, 0,
		                           message, sizeof message);
		if (n == 0 || n == -ECANCELED)
			return;
		/*
		 * One that has gone meanwhile, or is of before the machine was started, is no
		 * fault.
		 */
		if (n < 0 && n != -ENOENT && n != -ESTALE)
			complain_once(round, message);
		for (int i = 0; i < n; i++)
			if (events_is_wanted(round->events, &entry[i]))
				events_keep(round, &entry[i]);
	}
}

static void add_work(void *cookie, const char *name)
{
	struct round *round = cookie;
	char *unit = text("%s", name);

	if (queue_count(round->work) == WORK_MAX)
		read_work(round);
	if (queue_put(round->work, unit, 0) != 0)
		free(unit); /* interrupted, so that the queue is not read */
}

/*
 * Orders by time; events of the same time stay as they were read: those of one ring in the order of
 * writing.
 */
static int by_time(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->entry.event.begin_ns != y->entry.event.begin_ns)
		return x->entry.event.begin_ns < y->entry.event.begin_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void events_show(struct round *round, struct trace *trace)
{
	if (round->count)
		qsort(round->kept, round->count, sizeof *round->kept, by_time);
	for (size_t i = 0; i < round->count; i++) {
		const struct ring_entry *entry = &round->kept[i].entry;

		if (trace)
			trace_add(trace, entry);
		else if (round->events->json)
			event_print_json(stdout, entry, round->kept[i].user,
			                 round->kept[i].holders);
		else
			event_print_text(stdout, entry, round->kept[i].user,
			                 round->kept[i].holders);
		free(round->kept[i].holders);
	}
	round->count = 0;
	if (trace)
		trace_flush(trace);
	output_flush();
}

/* Opens the state directory; -1: there is none, as no job has begun yet. */
static int events_open_directory(const struct events_options *events)
{
	char message[512] = "";
	bool makes = events->follow || (events->is_live && !events->job);
	int directory = directory_open(makes, message, sizeof message);

	if (directory == -ENOENT && !events->job)
		return -1;
	if (directory < 0)
		fail("%s", message);
	return directory;
}

/* Reads all rings of a place. */
static void read_place(void *cookie, const struct event_place *place)
{
	struct round *round = cookie;
	int listed;

	round->at = place;
	listed = ring_list(place->directory, round->events->job, add_work, round);
	if (listed < 0 && place->reader == event_places_own(places))
		fail("%s", strerror(-listed));
	read_work(round);
}

/* Refuses a job that is not there, unless it may come. Returns whether it may have events later. */
static bool check_job(const struct events_options *events, int directory)
{
	struct segment_view *view;
	unsigned int lack = 0;
	bool is_unnamed;

	if (!events->job)
		return true;
	if (directory_check_name(events->job) != 0)
		fail("'%s' cannot be a job: expected 1 to 63 of A-Z a-z 0-9 . _ - not beginning "
		     "with a dot",
		     events->job);
	if (ring_list(directory, events->job, NULL, NULL) != 0 || events->follow || events->state)
		return true;
	view = jobs_read(events->job);
	if (!view)
		exit(TOOL_FAILED);
	is_unnamed = view->is_unnamed;
	for (int i = 0; i < view->process_count; i++)
		lack |= view->process[i].lacks & SEGMENT_MODULE_events;
	segment_view_free(view);
	if (lack)
		complain("job '%s' keeps no events: its Spillway is built without the module "
		         "'events'",
		         events->job);
	else if (is_unnamed)
		complain("job '%s' keeps no events: it has no name, no limit and no share; name it "
		         "with `run --name`",
		         events->job);
	else
		complain("job '%s' has kept no events: none of its processes had a context, or "
		         "the state directory had no room, as their log says then",
		         events->job);
	return !is_unnamed;
}

static void end_round(struct round *round)
{
	for (struct faults *fault = round->faults, *next; fault; fault = next) {
		next = fault->next;
		free(fault->message);
		free(fault);
	}
	free(round->kept);
}

int command_events(int argc, char **argv)
{
	static char line[PIPE_BUF];
	struct events_options events = {0};
	struct round round = {.events = &events};
	struct ring_reader *reader;
	struct trace *trace = NULL;
	int directory, number = 0;
	bool follows, is_quiet;

	events_read_command_line(&events, argc, argv);
	directory = events_open_directory(&events);
	follows = (directory < 0 || check_job(&events, directory)) && events.is_live;
	follows |= events.follow;
	is_quiet = follows && events.is_live;
	places = event_places_create(events.job, directory, WORK_MAX);
	round.work = event_places_work(places);
	reader = event_places_own(places);
	if (events.state && !reader)
		return TOOL_OK;
	if (events.state)
		events_restore(reader, events.state);
	if (events.trace && !(trace = trace_begin(events.trace)))
		return TOOL_FAILED;
	/* A line is one write, and of this size a pipe takes it whole. */
	setvbuf(stdout, line, _IOLBF, sizeof line);
	catch_interrupts();
	for (;;) {
		/* a job is in one place, and so are the jobs of a state file */
		event_places_each(places, !events.job && !events.state && number++ % LOOK == 0,
		                  read_place, &round);
		if (is_quiet && round.count == 0)
			complain("nothing happened in the last minute; --since 1h shows more of "
			         "the past");
		is_quiet = false;
		events_show(&round, trace);
		if (events.state && !trace)
			events_save(reader, events.state);
		if (!follows || interrupted)
			break;
		deadline_sleep(ROUND_NS);
	}
	if (trace && !trace_end(trace))
		return TOOL_FAILED;
	if (trace && events.state)
		events_save(reader, events.state);
	end_round(&round);
	event_places_destroy(places);
	/*
	 * The caller expects it of a program that was interrupted; the default action is in place
	 * again.
	 */
	if (interrupted)
		raise(interrupted);
	return round.failed ? TOOL_FAILED : TOOL_OK;
}
