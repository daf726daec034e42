/* SPDX-License-Identifier: MIT */
/* Jobs of the node, as their pages have them. */
#include "tools/view/node.h"

#include <inttypes.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tools/view/jobs.h"
#include "core/pages/turns.h"
#include "tools/view/tool.h"

const char *node_user(uid_t owner, char *buf, size_t size)
{
	const struct passwd *user = getpwuid(owner);

	if (user && strlen(user->pw_name) < size)
		return strcpy(buf, user->pw_name);
	snprintf(buf, size, "%u", (unsigned)owner);
	return buf;
}

struct collecting {
	struct node_jobs *jobs;
	const struct job_list *own;
};

/* Returns whether a job is one of our state directory, which says more of it than its page. */
static bool is_own(const struct page_found *found, const struct job_list *own)
{
	struct segment_view *view = NULL;
	bool same = false;

	if (found->owner != geteuid())
		return false;
	for (int i = 0; i < own->count && !same; i++) {
		if (strcmp(own->name[i], found->page.job) != 0)
			continue;
		view = allocate(sizeof *view);
		/* one that cannot be read has been said */
		same = segment_read(own->name[i], view, NULL, 0) != 0 ||
		       view->token == found->page.token;
		segment_view_free(view);
	}
	return same;
}

void node_jobs_add(struct node_jobs *jobs, const struct node_job *job)
{
	jobs->job = grow(jobs->job, jobs->count, sizeof *jobs->job);
	jobs->job[jobs->count++] = *job;
}

static void node_collect(void *cookie, const struct page_found *found)
{
	const struct collecting *collecting = cookie;
	struct node_jobs *jobs = collecting->jobs;
	struct node_job job = {.page = found->page, .owner = found->owner, .running = found->lives};

	if (is_own(found, collecting->own)) {
		jobs->own = grow(jobs->own, jobs->own_count, sizeof *jobs->own);
		jobs->own[jobs->own_count++] = job;
		return;
	}
	node_user(found->owner, job.user, sizeof job.user);
	node_jobs_add(jobs, &job);
}

static int by_user_and_name(const void *a, const void *b)
{
	const struct node_job *one = a, *other = b;
	int order = strcmp(one->user, other->user);

	if (order == 0)
		order = strcmp(one->page.job, other->page.job);
	if (order == 0)
		order = one->page.token < other->page.token ? -1 : 1;
	return order;
}

enum { TOKEN_DIGITS_LEAST = 4 };

void node_token(uint64_t token, char text[NODE_TOKEN_DIGITS + 1])
{
	snprintf(text, NODE_TOKEN_DIGITS + 1, "%0*" PRIx64, NODE_TOKEN_DIGITS, token);
}

static bool is_named_alike(const struct node_job *one, const struct node_job *other)
{
	return one->owner == other->owner && strcmp(one->page.job, other->page.job) == 0;
}

/* Returns how many digits it takes to tell it from the other. */
static int digits_between(uint64_t one, uint64_t other)
{
	char text[NODE_TOKEN_DIGITS + 1], against[NODE_TOKEN_DIGITS + 1];
	int same = 0;

	node_token(one, text);
	node_token(other, against);
	while (same < NODE_TOKEN_DIGITS - 1 && text[same] == against[same])
		same++;
	return same + 1 > TOKEN_DIGITS_LEAST ? same + 1 : TOKEN_DIGITS_LEAST;
}

/*
 * Finds the digits that tell jobs of one user and name apart: those stand side by side, in order of
 * their tokens.
 */
static void tell_apart(struct node_jobs *jobs, const struct job_list *own)
{
	for (int i = 0; i + 1 < jobs->count; i++) {
		struct node_job *one = &jobs->job[i], *next = one + 1;
		int digits = digits_between(one->page.token, next->page.token);

		if (!is_named_alike(one, next))
			continue;
		one->digits = one->digits > digits ? one->digits : digits;
		next->digits = digits;
	}
	/* the name alone is that of our state directory's */
	for (int i = 0; i < jobs->count; i++)
		for (int n = 0; n < own->count && jobs->job[i].digits == 0; n++)
			if (strcmp(own->name[n], jobs->job[i].page.job) == 0 &&
			    jobs->job[i].owner == geteuid())
				jobs->job[i].digits = TOKEN_DIGITS_LEAST;
}

const char *node_name(const struct node_job *job, char buf[NODE_NAME_MAX])
{
	char token[NODE_TOKEN_DIGITS + 1];

	node_token(job->page.token, token);
	snprintf(buf, NODE_NAME_MAX, "%s%s%.*s", job->page.job, job->digits ? "@" : "", job->digits,
	         token);
	return buf;
}

void node_jobs_read(struct node_jobs *jobs)
{
	char why[256] = "", path[PATH_MAX];
	struct collecting collecting = {.jobs = jobs};
	struct job_list own;
	int refused;

	*jobs = (struct node_jobs){0};
	jobs_list(&own);
	collecting.own = &own;
	refused = page_list(node_collect, &collecting, why, sizeof why);
	if (refused > 0)
		complain("%s: %d %s cannot be read and not shown: %s",
		         directory_of_node(path, sizeof path), refused,
		         refused == 1 ? "page" : "pages", why);
	if (jobs->count)
		qsort(jobs->job, (size_t)jobs->count, sizeof *jobs->job, by_user_and_name);
	tell_apart(jobs, &own);
	jobs_list_free(&own);
}

void node_jobs_free(struct node_jobs *jobs)
{
	free(jobs->job);
	free(jobs->own);
}

static bool node_runs_on(const struct node_job *job, const char *uuid)
{
	for (uint32_t i = 0; job->running && i < job->page.device_count; i++)
		if (strcmp(job->page.device[i].device.uuid, uuid) == 0)
			return true;
	return false;
}

/* Returns whether a job of another user runs on the GPU. */
static bool node_has_other(const struct node_jobs *jobs, uid_t user, const char *uuid)
{
	for (int i = 0; i < jobs->count; i++)
		if (jobs->job[i].owner != user && node_runs_on(&jobs->job[i], uuid))
			return true;
	for (int i = 0; i < jobs->own_count; i++)
		if (jobs->own[i].owner != user && node_runs_on(&jobs->own[i], uuid))
			return true;
	return false;
}

/* The groups of a job's processes. */
struct node_groups {
	gid_t *id;
	int count;
};

static void node_add_groups(struct node_groups *groups, const char *numbers)
{
	char *end;

	for (const char *at = numbers;; at = end) {
		gid_t id = (gid_t)strtoul(at, &end, 10);

		if (end == at)
			return;
		groups->id = grow(groups->id, groups->count, sizeof *groups->id);
		groups->id[groups->count++] = id;
	}
}

/* Reads the groups that a process has. Returns false where it is not one of this user. */
static bool node_groups_of_process(pid_t pid, uid_t user, struct node_groups *groups)
{
	char *path = text("/proc/%d/status", (int)pid), *line = NULL;
	FILE *file = fopen(path, "re");
	bool is_user_s = false;
	size_t room = 0;

	free(path);
	while (file && getline(&line, &room, file) > 0) {
		if (strncmp(line, "Uid:", 4) == 0)
			is_user_s = strtoul(line + 4, NULL, 10) == user;
		else if (strncmp(line, "Gid:", 4) == 0)
			node_add_groups(groups, line + 4);
		else if (strncmp(line, "Groups:", 7) == 0)
			node_add_groups(groups, line + 7);
	}
	free(line);
	if (file)
		fclose(file);
	return is_user_s;
}

/* Reads the groups of a user, which are not those of a process of another pid namespace. */
static void node_groups_of_user(uid_t user, struct node_groups *groups)
{
	const struct passwd *found = getpwuid(user);
	int count = 0;

	groups->count = 0;
	if (!found)
		return;
	getgrouplist(found->pw_name, found->pw_gid, NULL, &count);
	free(groups->id);
	groups->id = allocate(((size_t)count + 1) * sizeof *groups->id);
	groups->count = getgrouplist(found->pw_name, found->pw_gid, groups->id, &count);
	if (groups->count < 0)
		groups->count = 0;
}

/*
 * Returns whether a process takes turns by another file than this one: it began before root made
 * that.
 */
static bool node_has_another_file(pid_t pid, const char *uuid, const struct stat *file)
{
	char *path = text("/proc/%d/maps", (int)pid), *name = text("/turns-%s", uuid);
	bool has_this = false, has_another = false;
	FILE *maps = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	while (maps && getline(&line, &room, maps) > 0) {
		unsigned long inode;
		unsigned int major_number, minor_number;

		if (!strstr(line, name) || sscanf(line, "%*s %*s %*s %x:%x %lu", &major_number,
		                                  &minor_number, &inode) != 3)
			continue;
		if (inode == file->st_ino && makedev(major_number, minor_number) == file->st_dev)
			has_this = true;
		else
			has_another = true;
	}
	free(line);
	free(name);
	free(path);
	if (maps)
		fclose(maps);
	return has_another && !has_this;
}

static bool node_takes_turns(const struct segment_view *view, const char *uuid)
{
	const struct segment_process *process = jobs_live_process(view);
	struct node_groups groups = {0};
	struct stat file;
	bool takes;

	if (!process || !turns_of_root(uuid, &file))
		return false;
	if (node_groups_of_process(process->pid, view->owner, &groups)) {
		takes = !node_has_another_file(process->pid, uuid, &file);
	} else {
		node_groups_of_user(view->owner, &groups);
		takes = true;
	}
	takes = takes && turns_may_use(&file, view->owner, groups.id, groups.count);
	free(groups.id);
	return takes;
}

void node_find_apart(const struct segment_view *view, const struct node_jobs *jobs,
                     bool is_apart[SEGMENT_DEVICES])
{
	struct node_jobs read = {0};

	memset(is_apart, 0, SEGMENT_DEVICES * sizeof *is_apart);
	for (int i = 0; i < view->device_count && jobs_live_process(view); i++) {
		const char *uuid = view->device[i].uuid;

		if (view->job_total[i].share_set >= 100000 || node_takes_turns(view, uuid))
			continue;
		if (!jobs) {
			node_jobs_read(&read);
			jobs = &read;
		}
		is_apart[i] = node_has_other(jobs, view->owner, uuid);
	}
	node_jobs_free(&read);
}
