/* SPDX-License-Identifier: MIT */
/*
 * Reach: which jobs of the node a user may look at and act on.
 *
 * A page may be anyone's word, and so may the files of another user's directory. So root acts there
 * only as that user: for as long as it looks, so that the next user's jobs can be looked at, and
 * for good before it acts. A page can then have no effect that its owner could not have without it.
 * Files are copied by pread(2), within milliseconds for each job and LOOK_NS for each user, so that
 * no user's files keep us from those of another.
 */
#include "tools/view/reach.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_status.h"
#include "core/state/directory.h"
#include "tools/view/processes.h"
#include "tools/view/tool.h"

#define LOOK_NS 1000000000ull

static char gone_to[PATH_MAX]; /* by reach_job(); "": nowhere */

/* The name that was given, in its parts. */
struct given {
	char user[NODE_USER_MAX]; /* "": any */
	char job[64];
	char token[NODE_TOKEN_DIGITS + 1]; /* the beginning of it; "": any */
};

/* Takes it apart. False: it can be no job of the node. */
static bool read_given(const char *given, struct given *parts)
{
	const char *slash = strchr(given, '/'), *job = slash ? slash + 1 : given;
	const char *at = strchr(job, '@');
	size_t user = slash ? (size_t)(slash - given) : 0;
	size_t length = at ? (size_t)(at - job) : strlen(job);
	size_t digits = at ? strlen(at + 1) : 0;

	if (user >= sizeof parts->user || length >= sizeof parts->job ||
	    digits > NODE_TOKEN_DIGITS || (slash && user == 0) || (at && digits == 0))
		return false;
	snprintf(parts->user, sizeof parts->user, "%.*s", (int)user, given);
	snprintf(parts->job, sizeof parts->job, "%.*s", (int)length, job);
	snprintf(parts->token, sizeof parts->token, "%s", at ? at + 1 : "");
	return strspn(parts->token, "0123456789abcdef") == digits;
}

static bool is_token(const struct given *given, uint64_t token)
{
	char text[NODE_TOKEN_DIGITS + 1];

	node_token(token, text);
	return strncmp(text, given->token, strlen(given->token)) == 0;
}

/* Returns whether it is meant, its user by name or number. */
static bool is_meant(const struct node_job *job, const struct given *given)
{
	char number[16];

	snprintf(number, sizeof number, "%u", (unsigned)job->owner);
	return strcmp(given->job, job->page.job) == 0 && is_token(given, job->page.token) &&
	       (!*given->user || strcmp(given->user, job->user) == 0 ||
	        strcmp(given->user, number) == 0);
}

/* Finds the only one that runs, else the only one. NULL: *count says how many. */
static const struct node_job *reach_find(const struct node_jobs *jobs, const struct given *given,
                                         int *count)
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

static gid_t group_of(uid_t owner)
{
	const struct passwd *user = getpwuid(owner);

	return user ? user->pw_gid : (gid_t)owner;
}

static bool reach_become(const struct node_job *job)
{
	gid_t group = group_of(job->owner);

	/* for good: there is no way back to root from here */
	if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0 ||
	    setresuid(job->owner, job->owner, job->owner) != 0) {
		complain("becoming user %s: %s", job->user, strerror(errno));
		return false;
	}
	return true;
}

/*
 * Describes it: "ada/twin@3fa2 (running since ..., 2 processes, process 4711, pod=train-0, in
 * /dev/shm/spillway-1000)"
 */
static char *reach_describe(const struct node_job *job)
{
	const struct page *page = &job->page;
	char name[NODE_NAME_MAX], when[32];

	time_text(page->created_ns, when, sizeof when);
	if (!job->running)
		return text("%s/%s (ended, begun %s, in %s)", job->user, node_name(job, name), when,
		            page->directory);
	return text("%s/%s (running since %s, %u %s, process %d%s%s, in %s)", job->user,
	            node_name(job, name), when, page->processes,
	            page->processes == 1 ? "process" : "processes", (int)page->pid,
	            *page->labels ? ", " : "", page->labels, page->directory);
}

static void complain_several(const struct node_jobs *jobs, const char *asked,
                             const struct given *given)
{
	char *known = text("%s", "");

	for (int i = 0; i < jobs->count; i++) {
		char *one, *longer;

		if (!is_meant(&jobs->job[i], given))
			continue;
		one = reach_describe(&jobs->job[i]);
		longer = text("%s%s%s", known, *known ? "; " : "", one);
		free(one);
		free(known);
		known = longer;
	}
	complain("which '%s'? There are %s; expected one of these as USER/JOB or "
	         "USER/JOB@TOKEN",
	         asked, known);
	free(known);
}

/* Returns whether it is one of our state directory. */
static bool is_here(const struct given *given)
{
	struct segment_view *view;
	struct job_list own;
	bool here = false;

	if (*given->user)
		return false;
	jobs_list(&own);
	for (int i = 0; i < own.count; i++)
		here |= strcmp(own.name[i], given->job) == 0;
	jobs_list_free(&own);
	if (!here || !*given->token)
		return here;
	view = allocate(sizeof *view);
	here = segment_read(given->job, view, NULL, 0) == 0 && is_token(given, view->token);
	segment_view_free(view);
	return here;
}

/* --- going there for good --- */

/* Finds the process that wrote the page, by its number here; 0: it is not to be seen. */
static pid_t find_writer(const struct page *page)
{
	DIR *listing = page->pid_namespace ? opendir("/proc") : NULL;
	pid_t writer = 0;

	for (const struct dirent *entry; listing && !writer && (entry = readdir(listing));) {
		pid_t process = atoi(entry->d_name);
		char *path = text("/proc/%d/ns/pid", (int)process);
		struct stat found;

		if (process > 0 && file_status(path, &found) == 0 &&
		    found.st_ino == page->pid_namespace && process_inside(process) == page->pid)
			writer = process;
		free(path);
	}
	if (listing)
		closedir(listing);
	return writer;
}

/*
 * Reads the job in this directory, where another one of its name may be. Returns whether it is
 * there. why: where it cannot be read.
 */
static bool read_in(const struct node_job *job, const char *directory, struct segment_view *view,
                    char *why, size_t size)
{
	directory_use(directory);
	return segment_read(job->page.job, view, why, size) == 0 && view->token == job->page.token;
}

/* Goes to the directory, if the job is there. */
static bool go_to(const struct node_job *job, const char *directory, char *why, size_t size)
{
	struct segment_view *view = allocate(sizeof *view);
	bool is_there = read_in(job, directory, view, why, size);

	if (is_there) {
		snprintf(gone_to, sizeof gone_to, "%s", directory);
		setenv("SPILLWAY_STATE_DIR", directory, 1); /* for programs that we start */
	}
	segment_view_free(view);
	return is_there;
}

/* Returns the directory as the root of one of its processes has it. The caller frees it. */
static char *directory_inside(const struct node_job *job, pid_t writer)
{
	return text("/proc/%d/root%s", (int)writer, job->page.directory);
}

/*
 * Goes there as the job's processes call the directory, else through the root of one: in a
 * container that name means another place, where another job of this name may be.
 */
static bool reach_enter(const struct node_job *job, pid_t writer)
{
	const char *directory = job->page.directory;
	char why[512] = "", name[NODE_NAME_MAX];
	char *inside = directory_inside(job, writer);
	bool entered =
	    go_to(job, directory, why, sizeof why) || (writer > 0 && go_to(job, inside, NULL, 0));

	free(inside);
	if (entered)
		return true;
	if (*why)
		complain("job '%s' of user %s: %s", node_name(job, name), job->user, why);
	else
		complain("job '%s' of user %s: %s holds another job here; expected "
		         "spillway to be run where that job is, in its container",
		         node_name(job, name), job->user, directory);
	return false;
}

/* Reaches another user's job; our own are reached by their state directory. */
static bool reach(const struct node_jobs *jobs, const char **job, const struct given *given)
{
	const struct node_job *found;
	char node[PATH_MAX];
	pid_t writer;
	int count;

	found = reach_find(jobs, given, &count);
	if (!found && count == 0 && (**job == '.' || !strpbrk(*job, "/@")))
		return true; /* the reader of the state directory reports it */
	if (!found && count == 0) {
		directory_of_node(node, sizeof node);
		complain("no job '%s': no page in %s tells of it; 'spillway stat' lists the jobs "
		         "within reach, 'spillway doctor' says whether that folder is there",
		         *job, node);
		return false;
	}
	if (!found) {
		complain_several(jobs, *job, given);
		return false;
	}
	if (found->owner != geteuid() && geteuid() != 0) {
		complain("job '%s' is user %s's: expected that user or root", *job, found->user);
		return false;
	}
	writer = find_writer(&found->page); /* a user may not see all that root does */
	if (found->owner != geteuid() && !reach_become(found))
		return false;
	if (!reach_enter(found, writer))
		return false;
	*job = text("%s", found->page.job); /* lives as long as the command */
	return true;
}

bool reach_job(const char **job)
{
	struct node_jobs jobs;
	struct given given;
	bool done;

	if (!read_given(*job, &given)) {
		if (!strpbrk(*job, "/@"))
			return true; /* the reader of the state directory reports it */
		complain("'%s' cannot be a job: expected NAME or USER/NAME, with @ and up to %d of "
		         "0-9 a-f after it where several have that name",
		         *job, NODE_TOKEN_DIGITS);
		return false;
	}
	if (is_here(&given)) {
		*job = text("%s", given.job);
		return true;
	}
	node_jobs_read(&jobs);
	done = reach(&jobs, job, &given);
	node_jobs_free(&jobs);
	return done;
}

/* --- looking there --- */

static struct {
	gid_t group, *groups;
	int count;
	bool is_away;
} root;

static void look_back(void)
{
	directory_use(*gone_to ? gone_to : NULL);
	if (!root.is_away)
		return;
	root.is_away = false;
	if (seteuid(0) != 0 || setegid(root.group) != 0 ||
	    setgroups((size_t)root.count, root.groups) != 0)
		fail("becoming root again: %s", strerror(errno));
}

void reach_end(void)
{
	look_back();
}

bool reach_begin(uid_t owner)
{
	gid_t group = group_of(owner);

	if (owner == geteuid())
		return true;
	if (geteuid() != 0)
		return false;
	if (!root.groups) {
		root.count = getgroups(0, NULL);
		root.groups = allocate(((size_t)root.count + 1) * sizeof *root.groups);
		root.count = getgroups(root.count, root.groups);
		root.group = getegid();
	}
	/* root in a container may not do so */
	if (root.count < 0 || setgroups(0, NULL) != 0)
		return false;
	root.is_away = true;
	if (setegid(group) == 0 && seteuid(owner) == 0)
		return true;
	look_back();
	return false;
}

static bool reach_look(const struct node_job *job, const char *path, struct segment_view *view,
                       int *directory)
{
	bool is_there = reach_begin(job->owner) && read_in(job, path, view, NULL, 0);

	if (is_there && directory)
		*directory = directory_open(0, NULL, 0);
	reach_end();
	return is_there && (!directory || *directory >= 0);
}

struct segment_view *reach_view(const struct node_job *job, int *directory)
{
	struct segment_view *view;
	bool is_there;

	if (job->owner != geteuid() && geteuid() != 0)
		return NULL;
	view = allocate(sizeof *view);
	is_there = reach_look(job, job->page.directory, view, directory);
	if (!is_there) {
		pid_t writer = find_writer(&job->page);
		char *inside = directory_inside(job, writer);

		is_there = writer > 0 && reach_look(job, inside, view, directory);
		free(inside);
	}
	if (is_there)
		return view;
	segment_view_free(view);
	return NULL;
}

struct reach_walk reach_walk(const char *job)
{
	struct reach_walk walk = {.own = jobs_walk(job)};

	node_jobs_read(&walk.node);
	walk.next = job ? walk.node.count : 0;
	return walk;
}

struct reach_walk reach_walk_others(void)
{
	struct reach_walk walk = {.opens = true};

	node_jobs_read(&walk.node);
	return walk;
}

/* Finds the page of a job of the state directory. */
static const struct page *own_page(const struct reach_walk *walk)
{
	for (int i = 0; walk->view && i < walk->node.own_count; i++)
		if (walk->node.own[i].page.token == walk->view->token)
			return &walk->node.own[i].page;
	return NULL;
}

/*
 * Looks at the next job of the node, unless the other jobs of its user have taken long already.
 * The list is sorted by user.
 */
static bool look_at_next(struct reach_walk *walk)
{
	const struct node_job *job = &walk->node.job[walk->next];
	uint64_t begun = clock_now();

	if (walk->next == 0 || job->owner != job[-1].owner)
		walk->looked_ns = 0;
	walk->page = job;
	walk->told = &job->page;
	walk->user = job->user;
	walk->view = NULL;
	if (walk->looked_ns < LOOK_NS)
		walk->view = reach_view(job, walk->opens ? &walk->directory : NULL);
	walk->next++;
	walk->looked_ns += clock_now() - begun;
	return true;
}

bool reach_next(struct reach_walk *walk)
{
	if (walk->page)
		segment_view_free(walk->view);
	walk->view = NULL;
	if (!walk->page && jobs_next(&walk->own)) {
		walk->view = walk->own.view;
		walk->told = own_page(walk);
		walk->user = node_user(geteuid(), walk->own_user, sizeof walk->own_user);
		return true;
	}
	if (walk->next < walk->node.count)
		return look_at_next(walk);
	node_jobs_free(&walk->node);
	return false;
}
