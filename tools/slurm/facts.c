/* SPDX-License-Identifier: MIT */
/* The controller's facts about a job, and the comment that it keeps for us. */
#include "tools/slurm/facts.h"

#include <ctype.h>
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often a comment is written again that another node's has replaced meanwhile. */
enum { COMMENT_TRIES = 20 };

static bool fail_slurm(const char *doing, char *message, size_t size)
{
	snprintf(message, size, "%s: %s", doing, slurm_strerror(errno));
	return false;
}

/* Appends NAME=VALUE to labels; a character that such a list cannot have becomes an underscore. */
static void label(char *labels, size_t size, const char *name, const char *value)
{
	size_t used = strlen(labels);

	if (!value || !*value)
		return;
	if (used + strlen(name) + strlen(value) + 3 > size)
		return;
	used += (size_t)sprintf(labels + used, "%s%s=", used ? "," : "", name);
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;

		labels[used++] = isalnum(c) || strchr("._-/:@+", c) ? (char)c : '_';
	}
	labels[used] = '\0';
}

static void label_all(const job_info_t *job, struct job_facts *facts)
{
	char number[32];

	label(facts->labels, sizeof facts->labels, "user", job->user_name);
	label(facts->labels, sizeof facts->labels, "account", job->account);
	label(facts->labels, sizeof facts->labels, "partition", job->partition);
	snprintf(number, sizeof number, "%u", job->job_id);
	label(facts->labels, sizeof facts->labels, "job", number);
	if (job->array_job_id == 0 || job->array_task_id == NO_VAL)
		return;
	snprintf(number, sizeof number, "%u_%u", job->array_job_id, job->array_task_id);
	label(facts->labels, sizeof facts->labels, "array", number);
}

/* Returns this node's resources of the job: "gpu:1(IDX:0),shard:2(2/8)"; NULL: nothing is known. */
static const char *find_here(const job_info_t *job)
{
	const char *node = getenv("SLURMD_NODENAME");
	hostlist_t nodes = slurm_hostlist_create(job->nodes);
	int place = node && nodes ? slurm_hostlist_find(nodes, node) : 0;

	if (nodes)
		slurm_hostlist_destroy(nodes);
	if (place < 0 || (uint32_t)place >= job->gres_detail_cnt)
		return NULL;
	return job->gres_detail_str[place];
}

/* Returns how many indices a list such as "0-1,3" has, which ends with a parenthesis. */
static unsigned count_indices(const char *list)
{
	unsigned count = 0, first, last;

	while (*list && *list != ')') {
		int fields = sscanf(list, "%u-%u", &first, &last);

		if (fields < 1)
			return 0;
		count += fields == 2 && last > first ? last - first + 1 : 1;
		list += strcspn(list, ",)");
		list += *list == ',';
	}
	return count;
}

/* Finds the text of a kind of resource: "KIND:2(IDX:0)", "KIND:a100:2(IDX:0-1)"; NULL: none. */
static const char *find_kind(const char *here, const char *kind)
{
	size_t length = strlen(kind);

	for (; here; here = strpbrk(here, ",")) {
		here += *here == ',';
		if (strncmp(here, kind, length) == 0 && here[length] == ':')
			return here + length + 1;
	}
	return NULL;
}

/* Returns the number that stands before the parenthesis. */
static unsigned number_before(const char *text)
{
	const char *end = text + strcspn(text, "(,");

	while (end > text && isdigit((unsigned char)end[-1]))
		end--;
	return (unsigned)strtoul(end, NULL, 10);
}

/* Finds the next that is told of a kind: "KIND:a100:2,KIND:v100:1". */
static const char *find_next(const char *text, const char *kind)
{
	return find_kind(strchr(text, ','), kind);
}

/* Adds up the numbers that are told of a kind of resource. */
static unsigned count_all(const char *here, const char *kind)
{
	unsigned sum = 0;

	for (const char *one = find_kind(here, kind); one; one = find_next(one, kind))
		sum += number_before(one);
	return sum;
}

/*
 * Reads "2(IDX:0)", so many of these GPUs in all, or as later versions have it "2(0/8,2/8)", so
 * many of so many of each. The largest part of one GPU counts, because a limit is for each GPU.
 */
static void read_shards(const char *text, struct job_facts *facts)
{
	const char *list = strchr(text, '(');
	unsigned taken, all, count;

	if (list && strncmp(list, "(IDX:", 5) == 0) {
		count = count_indices(list + 5);
		taken = count ? (number_before(text) + count - 1) / count : 0;
		facts->shards = taken > facts->shards ? taken : facts->shards;
		return;
	}
	while (list && *list && *list != ')') {
		if (sscanf(list + 1, "%u/%u", &taken, &all) == 2 && taken > facts->shards) {
			facts->shards = taken;
			facts->all_shards = all;
		}
		list = strpbrk(list + 1, ",)");
	}
}

/* Asks how many shards each GPU of this node is divided into; 0: the controller does not say. */
static unsigned ask_shards_of_gpu(void)
{
	node_info_msg_t *answer = NULL;
	unsigned gpus = 0, shards = 0;

	if (slurm_load_node_single(&answer, getenv("SLURMD_NODENAME"), SHOW_ALL) != 0)
		return 0;
	if (answer->record_count && answer->node_array[0].gres) {
		gpus = count_all(answer->node_array[0].gres, "gpu");
		shards = count_all(answer->node_array[0].gres, "shard");
	}
	slurm_free_node_info_msg(answer);
	return gpus ? shards / gpus : 0;
}

bool facts_ask(uint32_t id, struct job_facts *facts, char *message, size_t size)
{
	job_info_msg_t *answer = NULL;
	const char *here;

	*facts = (struct job_facts){0};
	if (slurm_load_job(&answer, id, SHOW_DETAIL) != SLURM_SUCCESS)
		return fail_slurm("the controller does not tell of the job", message, size);
	if (answer->record_count == 0) {
		slurm_free_job_info_msg(answer);
		snprintf(message, size, "the controller knows no such job");
		return false;
	}
	label_all(&answer->job_array[0], facts);
	here = find_here(&answer->job_array[0]);
	facts->gpus = count_all(here, "gpu");
	for (const char *one = find_kind(here, "shard"); one; one = find_next(one, "shard"))
		read_shards(one, facts);
	slurm_free_job_info_msg(answer);
	if (facts->shards && !facts->all_shards)
		facts->all_shards = ask_shards_of_gpu();
	if (facts->shards <= facts->all_shards)
		return true;
	snprintf(message, size, "%u shards of a GPU: the node does not say of how many",
	         facts->shards);
	return false;
}

/* Reads the comment as it stands; the caller frees it. NULL: the controller does not answer. */
static char *read_comment(uint32_t id, unsigned *nodes)
{
	job_info_msg_t *answer = NULL;
	char *comment = NULL;

	if (slurm_load_job(&answer, id, SHOW_DETAIL) != SLURM_SUCCESS)
		return NULL;
	if (answer->record_count) {
		const job_info_t *job = &answer->job_array[0];

		comment = strdup(job->admin_comment ? job->admin_comment : "");
		*nodes = job->num_nodes;
	}
	slurm_free_job_info_msg(answer);
	if (!comment)
		errno = ESLURM_INVALID_JOB_ID;
	return comment;
}

static bool write_comment(uint32_t id, char *comment)
{
	job_desc_msg_t change;

	slurm_init_job_desc_msg(&change);
	change.job_id = id;
	change.admin_comment = comment;
	return slurm_update_job(&change) == SLURM_SUCCESS;
}

/*
 * Returns the comment with a line in place of the one that begins alike, or behind all lines; NULL:
 * no memory. The caller frees it.
 */
static char *facts_put_line(const char *comment, const char *beginning, const char *line)
{
	size_t length = strlen(beginning);
	char *both = NULL;

	for (const char *c = comment; *c; c += strcspn(c, ";"), c += strspn(c, "; ")) {
		if (strncmp(c, beginning, length) != 0)
			continue;
		return asprintf(&both, "%.*s%s%s", (int)(c - comment), comment, line,
		                c + strcspn(c, ";")) < 0
		           ? NULL
		           : both;
	}
	return asprintf(&both, "%s%s%s", comment, *comment ? "; " : "", line) < 0 ? NULL : both;
}

/* Nodes of one job write theirs at the same moment, and Slurm cannot append: each looks again,
 * after a time that grows with their number. */
bool facts_put_comment(uint32_t id, const char *beginning, const char *line, char *message,
                       size_t size)
{
	unsigned seed = (unsigned)getpid(), nodes = 1;

	for (int i = 0; i < COMMENT_TRIES; i++) {
		char *old = read_comment(id, &nodes), *both;
		long wait_ms = 20 + rand_r(&seed) % (nodes > 50 ? 1000 : 20 * nodes);
		struct timespec nap = {wait_ms / 1000, wait_ms % 1000 * 1000000};
		int error;

		if (!old)
			return fail_slurm("AdminComment", message, size);
		if (strstr(old, line)) {
			free(old);
			return true;
		}
		both = facts_put_line(old, beginning, line);
		error = both && write_comment(id, both) ? 0 : errno;
		free(old);
		free(both);
		if (error == ESLURM_JOB_FINISHED)
			return true; /* the comment of such a job no longer changes */
		errno = error;
		if (error)
			return fail_slurm("AdminComment", message, size);
		nanosleep(&nap, NULL);
	}
	snprintf(message, size, "AdminComment: other nodes' lines always replaced this one");
	return false;
}
