/* SPDX-License-Identifier: MIT */
/* Records, read. */
#include "tools/whatif/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/modules/placement/record.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

/* More of anything is no record. */
#define RECORD_MOST ((uint64_t)1 << 24)
#define TEXT_MOST   ((long)1 << 28)

/* The text at hand. */
struct record_reader {
	const char *at;
	unsigned int line;
	bool is_bad;
};

/* Takes a word that has to stand there, and the space or the end of the line behind it. */
static bool reader_word(struct record_reader *r, const char *word)
{
	size_t length = strlen(word);

	if (r->is_bad || strncmp(r->at, word, length) != 0 || !strchr(" \n", r->at[length]) ||
	    !r->at[length]) {
		r->is_bad = true;
		return false;
	}
	r->line += r->at[length] == '\n';
	r->at += length + 1;
	return true;
}

/* Takes a number of at most so much. */
static uint64_t reader_number(struct record_reader *r, uint64_t most)
{
	uint64_t value;
	char *end;

	if (r->is_bad || *r->at < '0' || *r->at > '9') {
		r->is_bad = true;
		return 0;
	}
	errno = 0;
	value = strtoull(r->at, &end, 10);
	if (errno || value > most || (*end != ' ' && *end != '\n')) {
		r->is_bad = true;
		return 0;
	}
	r->line += *end == '\n';
	r->at = end + 1;
	return value;
}

/* Takes a number that may be -1. */
static int64_t reader_run(struct record_reader *r)
{
	if (strncmp(r->at, "-1 ", 3) == 0) {
		r->at += 3;
		return -1;
	}
	return (int64_t)reader_number(r, RECORD_MOST);
}

/* Takes the rest of the line. */
static void reader_text(struct record_reader *r, char *to, size_t size)
{
	size_t length = strcspn(r->at, "\n");

	if (r->is_bad || !r->at[length]) {
		r->is_bad = true;
		return;
	}
	snprintf(to, size, "%.*s", (int)(length < size ? length : size - 1), r->at);
	r->at += length + 1;
	r->line++;
}

static void read_head(struct record_reader *r, struct survey_record *of)
{
	reader_word(r, "spillway-survey");
	reader_number(r, RECORD_VERSION);
	reader_word(r, "name");
	reader_text(r, of->name, sizeof of->name);
	reader_word(r, "gpu");
	of->gpu = (int)reader_number(r, SEGMENT_DEVICES - 1);
	of->memory = reader_number(r, UINT64_MAX);
	of->token = reader_number(r, UINT64_MAX);
	reader_word(r, "limit");
	of->limit = reader_number(r, UINT64_MAX);
	reader_word(r, "held");
	of->held = reader_number(r, UINT64_MAX);
	reader_word(r, "link");
	of->to_host = reader_number(r, UINT64_MAX);
	of->to_device = reader_number(r, UINT64_MAX);
	reader_word(r, "how");
	of->steps = (int)reader_number(r, 1000);
	of->is_shared = reader_number(r, 1);
	of->is_whole = reader_number(r, 1);
}

static void read_pieces(struct record_reader *r, struct survey_record *of)
{
	reader_word(r, "pieces");
	of->pieces = reader_number(r, RECORD_MOST);
	of->piece = allocate((of->pieces + 1) * sizeof *of->piece);
	for (size_t i = 0; i < of->pieces && !r->is_bad; i++) {
		struct record_piece *p = &of->piece[i];

		p->run = reader_run(r);
		p->is_on_host = reader_number(r, 1);
		p->bytes = reader_number(r, UINT64_MAX);
		p->read = reader_number(r, UINT64_MAX);
		/* Those of a run are neighbours, and runs ascend. */
		if (p->run >= 0 && (p->run + 1 < of->runs || p->run > of->runs || !p->bytes))
			r->is_bad = true;
		if (p->run >= of->runs)
			of->runs = (uint32_t)p->run + 1;
	}
}

static void read_kernels(struct record_reader *r, struct survey_record *of)
{
	size_t room = 0;

	reader_word(r, "kernels");
	of->kernels = reader_number(r, RECORD_MOST);
	of->kernel = allocate((of->kernels + 1) * sizeof *of->kernel);
	for (size_t k = 0; k < of->kernels && !r->is_bad; k++) {
		struct weigh_kernel *kernel = &of->kernel[k];

		kernel->key = reader_number(r, UINT64_MAX);
		kernel->ns = reader_number(r, UINT64_MAX);
		kernel->at_ns = reader_number(r, UINT64_MAX);
		kernel->first = (uint32_t)of->uses;
		kernel->uses = (uint32_t)reader_number(r, RECORD_MOST);
		while (of->uses + kernel->uses > room) {
			room = room ? room * 2 : 1024;
			of->use = realloc(of->use, room * sizeof *of->use);
			if (!of->use)
				fail("out of memory");
		}
		for (uint32_t i = 0; i < kernel->uses && !r->is_bad; i++) {
			of->use[of->uses] = (uint32_t)reader_number(r, RECORD_MOST);
			r->is_bad |= of->use[of->uses++] >= of->runs;
		}
	}
	r->is_bad |= !of->kernels || !of->runs;
}

/* Takes an address that a kernel was given. Returns whether it is the last of its line. */
static bool read_address(struct record_reader *r, struct survey_record *of)
{
	struct record_address *address;

	if (of->addresses > RECORD_MOST)
		r->is_bad = true;
	of->address = grow(of->address, (int)of->addresses, sizeof *of->address);
	address = &of->address[of->addresses++];
	address->run = (uint32_t)reader_number(r, RECORD_MOST);
	address->offset = reader_number(r, UINT64_MAX);
	r->is_bad |= address->run >= of->runs;
	return r->is_bad || r->at[-1] == '\n';
}

/* Takes the kernels of launches. A record of version 1 has none. */
static void read_nodes(struct record_reader *r, struct survey_record *of)
{
	if (strncmp(r->at, "nodes\n", 6) != 0)
		return;
	reader_word(r, "nodes");
	while (!r->is_bad && *r->at >= '0' && *r->at <= '9') {
		struct record_node *node;
		bool is_last;

		of->node = grow(of->node, (int)of->nodes, sizeof *of->node);
		node = &of->node[of->nodes++];
		node->kernel = (uint32_t)reader_number(r, RECORD_MOST);
		node->first = (uint32_t)of->addresses;
		r->is_bad |= node->kernel >= of->kernels;
		is_last = r->is_bad || r->at[-1] == '\n';
		while (!is_last)
			is_last = read_address(r, of);
		node->count = (uint32_t)of->addresses - node->first;
	}
}

/* Takes one survey. */
static void read_survey(struct record_reader *r, struct survey_record *of)
{
	if (strncmp(r->at, "seen ", 5) == 0) {
		reader_word(r, "seen");
		of->seen_steps = reader_number(r, UINT64_MAX);
		of->seen_launches = reader_number(r, UINT64_MAX);
	}
	read_head(r, of);
	if (!r->is_bad)
		read_pieces(r, of);
	if (!r->is_bad)
		read_kernels(r, of);
	if (!r->is_bad)
		read_nodes(r, of);
	reader_word(r, "end");
}

bool records_parse(struct records *records, const char *text, char *message, size_t size)
{
	struct record_reader r = {.at = text, .line = 1};

	*records = (struct records){0};
	if (strncmp(text, "spillway-record ", 16) == 0) {
		reader_word(&r, "spillway-record");
		reader_number(&r, RECORDS_FILE_VERSION);
		reader_word(&r, "job");
		reader_text(&r, records->job, sizeof records->job);
	}
	do {
		records->gpu = grow(records->gpu, records->count, sizeof *records->gpu);
		records->gpu[records->count] = (struct survey_record){0};
		read_survey(&r, &records->gpu[records->count++]);
	} while (!r.is_bad && *r.at && records->count < SEGMENT_DEVICES);
	if (!r.is_bad && !*r.at)
		return true;
	snprintf(message, size, "line %u is not as a record of version %d has it", r.line,
	         RECORD_VERSION);
	records_free(records);
	return false;
}

void records_free(struct records *records)
{
	for (int i = 0; i < records->count; i++) {
		free(records->gpu[i].piece);
		free(records->gpu[i].kernel);
		free(records->gpu[i].use);
		free(records->gpu[i].node);
		free(records->gpu[i].address);
	}
	free(records->gpu);
	*records = (struct records){0};
}

char *records_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	long size = -1;

	if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
	    size < TEXT_MOST) {
		rewind(file);
		text = allocate((size_t)size + 1);
		text[fread(text, 1, (size_t)size, file)] = '\0';
	}
	if (file)
		fclose(file);
	return text;
}

/* Returns whether a survey is of the run with this token. */
static bool is_of_run(const char *survey, uint64_t token)
{
	struct record_reader r = {.at = survey};
	struct survey_record head;

	read_head(&r, &head);
	return !r.is_bad && head.token == token;
}

char *records_of_job(const struct segment_view *view)
{
	char *all = NULL;

	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *of = &view->job_total[i];
		char *suffix = text("survey-%d", i), *path = jobs_file(view->job, suffix);
		char *survey = records_text(path), *head = NULL, *more;

		if (survey && is_of_run(survey, view->token)) {
			if (!all)
				head = text("spillway-record %d\njob %s\n", RECORDS_FILE_VERSION,
				            view->job);
			more = text("%s%sseen %" PRIu64 " %" PRIu64 "\n%s", all ? all : "",
			            head ? head : "", of->steps, of->watched_launches, survey);
			free(head);
			free(all);
			all = more;
		}
		free(survey);
		free(path);
		free(suffix);
	}
	return all;
}
