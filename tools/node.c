/*
 * Jobs of the node.
 *
 * A page is anybody's word. So root does nothing to a job of another user but as that user: whatever the page says, no
 * more can come of it than its owner could do himself.
 */
#include "tools/node.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/jobs.h"
#include "tools/tool.h"

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

/* One of our state directory, which says more of it than its page. */
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
		free(view);
	}
	return same;
}

static void collect(void *cookie, const struct page_found *found)
{
	const struct collecting *collecting = cookie;
	struct node_jobs *jobs = collecting->jobs;
	struct node_job *grown, *job;

	if (is_own(found, collecting->own))
		return;
	grown = realloc(jobs->job, (size_t)(jobs->count + 1) * sizeof *grown);
	if (!grown)
		fail("out of memory");
	jobs->job = grown;
	job = &grown[jobs->count++];
	job->page = found->page;
	job->owner = found->owner;
	job->running = found->lives;
	node_user(found->owner, job->user, sizeof job->user);
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

void node_jobs_read(struct node_jobs *jobs)
{
	char why[256] = "", path[PATH_MAX];
	struct collecting collecting = {.jobs = jobs};
	struct job_list own;
	int refused;

	*jobs = (struct node_jobs){0};
	jobs_list(&own);
	collecting.own = &own;
	refused = page_list(collect, &collecting, why, sizeof why);
	jobs_list_free(&own);
	if (refused > 0)
		complain("%s: %d %s not understood and left out: %s",
		         directory_of_node(path, sizeof path), refused,
		         refused == 1 ? "page" : "pages", why);
	if (jobs->count)
		qsort(jobs->job, (size_t)jobs->count, sizeof *jobs->job, by_user_and_name);
}

void node_jobs_free(struct node_jobs *jobs)
{
	free(jobs->job);
}

/* "NAME", or "USER/NAME" with the user's name or number. */
static bool is_meant(const struct node_job *job, const char *given)
{
	const char *slash = strchr(given, '/');
	char number[16];
	size_t length;

	if (!slash)
		return strcmp(given, job->page.job) == 0;
	length = (size_t)(slash - given);
	snprintf(number, sizeof number, "%u", (unsigned)job->owner);
	return strcmp(slash + 1, job->page.job) == 0 &&
	       ((strlen(job->user) == length && strncmp(given, job->user, length) == 0) ||
	        (strlen(number) == length && strncmp(given, number, length) == 0));
}

/* The only one that runs, else the only one. NULL: *count says how many. */
static const struct node_job *find(const struct node_jobs *jobs, const char *given, int *count)
{
	const struct node_job *found = NULL, *running = NULL;
	int alive = 0;

	*count = 0;
	for (int i = 0; i < jobs->count; i++) {
		const struct node_job *job = &jobs->job[i];

		if (!is_meant(job, given))
			continue;
		found = job;
		++*count;
		if (job->running) {
			running = job;
			alive++;
		}
	}
	if (alive == 1)
		return running;
	return *count == 1 ? found : NULL;
}

static bool become(const struct node_job *job)
{
	const struct passwd *user = getpwuid(job->owner);
	gid_t group = user ? user->pw_gid : (gid_t)job->owner;

	/* for good: there is no way back to root from here */
	if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0 ||
	    setresuid(job->owner, job->owner, job->owner) != 0) {
		complain("becoming user %s: %s", job->user, strerror(errno));
		return false;
	}
	setenv("SPILLWAY_STATE_DIR", job->page.directory, 1);
	return true;
}

static void complain_several(const struct node_jobs *jobs, const char *given)
{
	char *known = text("%s", "");

	for (int i = 0; i < jobs->count; i++) {
		const struct node_job *job = &jobs->job[i];
		char *longer;

		if (!is_meant(job, given))
			continue;
		longer = text("%s%s%s/%s in %s", known, *known ? ", " : "", job->user,
		              job->page.job, job->page.directory);
		free(known);
		known = longer;
	}
	complain("which '%s'? There are %s; expected USER/JOB, or SPILLWAY_STATE_DIR with one of "
	         "these directories",
	         given, known);
	free(known);
}

static bool is_here(const char *job)
{
	struct job_list own;
	bool here = false;

	if (strchr(job, '/'))
		return false;
	jobs_list(&own);
	for (int i = 0; i < own.count; i++)
		here |= strcmp(own.name[i], job) == 0;
	jobs_list_free(&own);
	return here;
}

/* Of other users' jobs; those of our own are reached by their state directory. */
static bool reach(const struct node_jobs *jobs, const char **job)
{
	const struct node_job *found;
	int count;

	found = find(jobs, *job, &count);
	if (!found && count == 0)
		return true; /* who reads the state directory says so */
	if (!found) {
		complain_several(jobs, *job);
		return false;
	}
	if (found->owner == geteuid()) {
		setenv("SPILLWAY_STATE_DIR", found->page.directory, 1);
	} else if (geteuid() != 0) {
		complain("job '%s' is user %s's: expected that user or root", *job, found->user);
		return false;
	} else if (!become(found)) {
		return false;
	}
	*job = text("%s", found->page.job); /* lives as long as the command */
	return true;
}

bool node_reach(const char **job)
{
	struct node_jobs jobs;
	bool done;

	if (is_here(*job))
		return true;
	node_jobs_read(&jobs);
	done = reach(&jobs, job);
	node_jobs_free(&jobs);
	return done;
}
