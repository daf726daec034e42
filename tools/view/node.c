/*
 * Jobs of the node.
 *
 * A page is anybody's word. So root does nothing to a job of another user but as that user:
 * whatever the page says, no more can come of it than its owner could do himself.
 */
#include "tools/view/node.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/view/jobs.h"
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

static void collect(void *cookie, const struct page_found *found)
{
	const struct collecting *collecting = cookie;
	struct node_jobs *jobs = collecting->jobs;
	struct node_job *job;

	if (is_own(found, collecting->own))
		return;
	jobs->job = grow(jobs->job, jobs->count, sizeof *jobs->job);
	job = &jobs->job[jobs->count++];
	job->page = found->page;
	job->owner = found->owner;
	job->running = found->lives;
	job->digits = 0;
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

enum { TOKEN_DIGITS = 16, TOKEN_DIGITS_LEAST = 4 };

static void write_token(uint64_t token, char text[TOKEN_DIGITS + 1])
{
	snprintf(text, TOKEN_DIGITS + 1, "%0*" PRIx64, TOKEN_DIGITS, token);
}

static bool is_named_alike(const struct node_job *one, const struct node_job *other)
{
	return one->owner == other->owner && strcmp(one->page.job, other->page.job) == 0;
}

/* Returns how many digits it takes to tell it from the other. */
static int digits_between(uint64_t one, uint64_t other)
{
	char text[TOKEN_DIGITS + 1], against[TOKEN_DIGITS + 1];
	int same = 0;

	write_token(one, text);
	write_token(other, against);
	while (same < TOKEN_DIGITS - 1 && text[same] == against[same])
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
	char token[TOKEN_DIGITS + 1];

	write_token(job->page.token, token);
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
	refused = page_list(collect, &collecting, why, sizeof why);
	if (refused > 0)
		complain("%s: %d %s not understood and left out: %s",
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
}

/* The name that was given, in its parts. */
struct given {
	char user[NODE_USER_MAX]; /* "": anybody */
	char job[64];
	char token[TOKEN_DIGITS + 1]; /* the beginning of it; "": any */
};

/* Takes it apart. False: it can be no job of the node. */
static bool read_given(const char *given, struct given *parts)
{
	const char *slash = strchr(given, '/'), *job = slash ? slash + 1 : given;
	const char *at = strchr(job, '@');
	size_t user = slash ? (size_t)(slash - given) : 0;
	size_t length = at ? (size_t)(at - job) : strlen(job);
	size_t digits = at ? strlen(at + 1) : 0;

	if (user >= sizeof parts->user || length >= sizeof parts->job || digits > TOKEN_DIGITS ||
	    (slash && user == 0) || (at && digits == 0))
		return false;
	snprintf(parts->user, sizeof parts->user, "%.*s", (int)user, given);
	snprintf(parts->job, sizeof parts->job, "%.*s", (int)length, job);
	snprintf(parts->token, sizeof parts->token, "%s", at ? at + 1 : "");
	return strspn(parts->token, "0123456789abcdef") == digits;
}

static bool is_token(const struct given *given, uint64_t token)
{
	char text[TOKEN_DIGITS + 1];

	write_token(token, text);
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
static const struct node_job *find(const struct node_jobs *jobs, const struct given *given,
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
	return true;
}

/*
 * Describes it: "ada/twin@3fa2 (running since ..., 2 processes, pod=train-0, in
 * /dev/shm/spillway-1000)"
 */
static char *describe(const struct node_job *job)
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
		one = describe(&jobs->job[i]);
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

/* --- going there --- */

/* Reads the last number of "NSpid: ...", which the process has in its own namespace. */
static int pid_inside(pid_t process)
{
	char *path = text("/proc/%d/status", (int)process), line[256];
	FILE *file = fopen(path, "re");
	int pid = -1;

	free(path);
	while (file && fgets(line, sizeof line, file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (char *at = line + 6, *end; (int)strtol(at, &end, 10) >= 0 && end != at;
		     at = end)
			pid = (int)strtol(at, NULL, 10);
	}
	if (file)
		fclose(file);
	return pid;
}

/* Finds the process that wrote the page, by its number here; 0: it is not to be seen. */
static pid_t find_writer(const struct page *page)
{
	DIR *listing = page->pid_namespace ? opendir("/proc") : NULL;
	pid_t writer = 0;

	for (const struct dirent *entry; listing && !writer && (entry = readdir(listing));) {
		pid_t process = atoi(entry->d_name);
		char *path = text("/proc/%d/ns/pid", (int)process);
		struct stat found;

		if (process > 0 && stat(path, &found) == 0 && found.st_ino == page->pid_namespace &&
		    pid_inside(process) == page->pid)
			writer = process;
		free(path);
	}
	if (listing)
		closedir(listing);
	return writer;
}

/*
 * Returns whether the job's segment is in this directory, where another one of its name may be.
 * why: where it cannot be read.
 */
static bool is_in(const struct node_job *job, const char *directory, char *why, size_t size)
{
	struct segment_view *view = allocate(sizeof *view);
	bool is_it;

	directory_use(directory);
	setenv("SPILLWAY_STATE_DIR", directory, 1); /* for what we start */
	is_it = segment_read(job->page.job, view, why, size) == 0 && view->token == job->page.token;
	segment_view_free(view);
	return is_it;
}

/*
 * Goes there as the job's processes call the directory, else through the root of one: in a
 * container that name means another place, where another job of this name may be.
 */
static bool enter(const struct node_job *job, pid_t writer)
{
	const char *directory = job->page.directory;
	char why[512] = "", name[NODE_NAME_MAX];
	char *inside = text("/proc/%d/root%s", (int)writer, directory);
	bool entered =
	    is_in(job, directory, why, sizeof why) || (writer > 0 && is_in(job, inside, NULL, 0));

	free(inside);
	if (entered)
		return true;
	if (*why)
		complain("job '%s' of user %s: %s", node_name(job, name), job->user, why);
	else
		complain("job '%s' of user %s: what is in %s here is another job; expected "
		         "spillway to be run where that one is, in its container",
		         node_name(job, name), job->user, directory);
	return false;
}

/* Reaches another user's job; our own are reached by their state directory. */
static bool reach(const struct node_jobs *jobs, const char **job, const struct given *given)
{
	const struct node_job *found;
	pid_t writer;
	int count;

	found = find(jobs, given, &count);
	if (!found && count == 0)
		return true; /* who reads the state directory says so */
	if (!found) {
		complain_several(jobs, *job, given);
		return false;
	}
	if (found->owner != geteuid() && geteuid() != 0) {
		complain("job '%s' is user %s's: expected that user or root", *job, found->user);
		return false;
	}
	writer = find_writer(&found->page); /* a user may not see all that root does */
	if (found->owner != geteuid() && !become(found))
		return false;
	if (!enter(found, writer))
		return false;
	*job = text("%s", found->page.job); /* lives as long as the command */
	return true;
}

bool node_reach(const char **job)
{
	struct node_jobs jobs;
	struct given given;
	bool done;

	if (!read_given(*job, &given)) {
		if (!strpbrk(*job, "/@"))
			return true; /* who reads the state directory says so */
		complain("'%s' cannot be a job: expected NAME or USER/NAME, with @ and up to %d of "
		         "0-9 a-f after it where several have that name",
		         *job, TOKEN_DIGITS);
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
