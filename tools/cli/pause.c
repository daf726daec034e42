/* SPDX-License-Identifier: MIT */
/*
 * spillway pause, resume: a file that holds the job's launches, and its end; with --evict the
 * memory leaves the GPU meanwhile.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/config/config.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow.h"
#include "tools/cli/moving.h"
#include "tools/formats/shares.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

#define CAUSE_NS 500000000ull

struct request {
	const char *job;
	uint64_t timeout_ns;
	struct deadline patience; /* for other writers of the override file */
	bool evict;
	uid_t user; /* the asking user */
};

static bool write_keys(struct request *request, const char *path, const char *selector,
                       const char *const *keys, const char *const *values)
{
	struct config_error error;

	if (config_override_write(path, selector, keys, values, &request->patience, &error) == 0)
		return true;
	complain("%s", error.message);
	return false;
}

/* Writes a key. value NULL: back to the value of the weaker layers. */
static bool write_key(struct request *request, const char *path, const char *selector,
                      enum config_key key, const char *value)
{
	const char *const keys[] = {config_key_name(key), NULL};
	const char *const values[] = {value, NULL};

	return write_keys(request, path, selector, keys, values);
}

static bool write_share(struct request *request, const char *path, const char *selector,
                        const char *value)
{
	return write_key(request, path, selector, CONFIG_KEY_share, value);
}

/* Pauses and evicts in one step: a job that is told both at once is never seen half way. */
static bool pause_and_evict(struct request *request, const char *path)
{
	const char *const keys[] = {config_key_name(CONFIG_KEY_share),
	                            config_key_name(CONFIG_KEY_evict), NULL};
	const char *const values[] = {"0", "yes", NULL};

	return write_keys(request, path, "", keys, values);
}

/* Sets every share that stands to 0: one for one GPU is stronger than that for all. */
static bool pause_shares(struct request *request, const char *path, const struct shares *standing)
{
	for (int i = 0; i < standing->count; i++)
		if (!write_share(request, path, standing->of[i].selector, "0"))
			return false;
	return write_share(request, path, "", "0");
}

static bool resume_shares(struct request *request, const char *path, const struct shares *standing,
                          const struct shares *saved)
{
	for (int i = 0; i < standing->count; i++)
		if (!shares_get(saved, standing->of[i].selector) &&
		    !write_share(request, path, standing->of[i].selector, NULL))
			return false;
	for (int i = 0; i < saved->count; i++)
		if (!write_share(request, path, saved->of[i].selector, saved->of[i].value))
			return false;
	return true;
}

/* --- jobs of an earlier version: pause is a share of 0 in the override file --- */

/* Keeps the keys of the override file that processes of that version take. */
static bool mend_for_before(struct request *request, const char *path, uint32_t version)
{
	struct config_error error;
	int lines = config_override_mend(path, version, &request->patience, &error);

	if (lines < 0)
		complain("%s", error.message);
	else if (lines > 0)
		complain(
		    "%s; %d such lines are made comments: processes of job '%s' refuse the file "
		    "with them, and could not be paused or resumed",
		    error.message, lines, request->job);
	return lines >= 0;
}

static bool pause_before(struct request *request, const char *path, const char *saved_file,
                         uint32_t version)
{
	struct shares saved, standing;

	if (!mend_for_before(request, path, version))
		return false;
	shares_read(path, &standing);
	if (shares_read(saved_file, &saved))
		printf("%s is paused already\n", request->job);
	else if (!shares_write(saved_file, &standing))
		return false;
	return pause_shares(request, path, &standing) &&
	       (!request->evict || pause_and_evict(request, path));
}

static bool is_evicted(const char *job)
{
	struct segment_view *view = jobs_read(job);
	bool evicted = false;

	for (int i = 0; view && i < view->device_count; i++)
		evicted |= view->job_total[i].evicted != 0;
	segment_view_free(view);
	return evicted;
}

static bool resume_before(struct request *request, const char *path, const char *saved_file,
                          uint32_t version)
{
	const char *job = request->job;
	struct shares saved, standing;
	bool evicted = is_evicted(job);

	if (!mend_for_before(request, path, version))
		return false;
	shares_read(path, &standing);
	shares_read(saved_file, &saved);
	/* While nothing is launched memory moves fastest. */
	if (!write_key(request, path, "", CONFIG_KEY_evict, NULL))
		return false;
	if (evicted)
		follow_return(job, request->timeout_ns);
	if (!resume_shares(request, path, &standing, &saved))
		return false;
	if (unlink(saved_file) == 0)
		return true;
	complain("removing %s: %s", saved_file, strerror(errno));
	return false;
}

/* --- jobs of this version: pause is a file of its own --- */

static void sign(struct config_pause *pause, uid_t user)
{
	const struct passwd *entry = getpwuid(user);

	if (entry && strlen(entry->pw_name) < sizeof pause->by)
		snprintf(pause->by, sizeof pause->by, "%s", entry->pw_name);
	else
		snprintf(pause->by, sizeof pause->by, "user %u", (unsigned)user);
	for (char *c = pause->by; *c; c++)
		if ((unsigned char)*c <= ' ' || strchr(";#=:[]", *c))
			*c = *c == ' ' ? ' ' : '?';
	pause->since_ns = clock_of_day();
	pause->at_ns = clock_now();
	segment_read_boot_id(pause->boot_id);
}

static bool write_pause(const char *job, const struct config_pause *pause)
{
	char *path = jobs_file(job, "pause.ini");
	int error = config_pause_write(path, pause);

	if (error)
		complain("%s: cannot be written: %s", path, strerror(-error));
	free(path);
	return error == 0;
}

static bool pause_now(struct request *request)
{
	struct config_pause pause;

	if (jobs_pause(request->job, &pause))
		printf("%s is paused already\n", request->job);
	if (!pause.is_on || !pause.at_ns) {
		memset(&pause, 0, sizeof pause);
		sign(&pause, request->user);
	}
	pause.evict |= request->evict;
	return write_pause(request->job, &pause);
}

/* Prints why a job that was not paused may stand still nevertheless. */
static void say_not_paused(const char *job, const char *path)
{
	struct shares standing;
	const char *share = shares_peek(path, &standing) ? shares_get(&standing, "") : NULL;

	printf(share && strcmp(share, "0") == 0
	           ? "%s is held by a share of 0, not by pause; use spillway set %s "
	             "--share PERCENT\n"
	           : "%s is not paused\n",
	       job, job);
}

static bool resume_now(struct request *request, const struct config_pause *paused)
{
	struct config_pause pause = *paused;
	char *path = jobs_file(request->job, "pause.ini");
	bool done = true;

	/* While nothing is launched memory moves fastest. */
	if (pause.evict) {
		pause.evict = false;
		done = write_pause(request->job, &pause);
		if (done)
			follow_return(request->job, request->timeout_ns);
	}
	if (done && unlink(path) != 0 && errno != ENOENT) {
		complain("removing %s: %s", path, strerror(errno));
		done = false;
	}
	free(path);
	return done;
}

static bool pause_job(struct request *request, const char *path, const char *saved_file,
                      uint32_t version)
{
	return version < SEGMENT_VERSION ? pause_before(request, path, saved_file, version)
	                                 : pause_now(request);
}

static bool resume_job(struct request *request, const char *path, const char *saved_file,
                       uint32_t version)
{
	struct config_pause pause;
	struct shares saved;

	if (jobs_pause(request->job, &pause))
		return resume_now(request, &pause);
	if (shares_peek(saved_file, &saved))
		return resume_before(request, path, saved_file, version);
	say_not_paused(request->job, path);
	return true;
}

/*
 * Notes the cause in the override file, without a change of a setting. A pause needs no override
 * file, so a fault of that is not complained of.
 */
static void pause_name_cause(const char *path)
{
	const char *const none[] = {NULL};
	struct deadline patience = DEADLINE_IN(CAUSE_NS);
	struct config_error error;

	config_override_write(path, "", none, none, &patience, &error);
}

static int pause_change(const struct command_line *line, struct request *request, int argc,
                        char **argv,
                        bool (*act)(struct request *request, const char *path,
                                    const char *saved_file, uint32_t version))
{
	struct segment_view *view;
	char *path, *saved_file;
	bool done;

	request->user = getuid(); /* before root takes the rights of the job's user */
	request->job = arguments_job(arguments_read(line, argc, argv), true);
	request->patience = DEADLINE_IN(request->timeout_ns);
	path = follow_override_path(request->job);
	view = path ? jobs_read(request->job) : NULL;
	if (!view)
		return TOOL_FAILED;
	saved_file = jobs_file(request->job, "paused");
	moving_look(view);
	pause_name_cause(path);
	done = act(request, path, saved_file, view->version);
	segment_view_free(view);
	free(path);
	free(saved_file);
	if (!done)
		return TOOL_FAILED;
	return request->evict ? follow_eviction(request->job, request->timeout_ns)
	                      : follow(request->job, request->timeout_ns);
}

int command_pause(int argc, char **argv)
{
	struct request request = {.timeout_ns = FOLLOW_NS};
	const struct argument options[] = {
	    {"evict", 0, NULL, "Move the job's memory to the host, too", argument_flag,
	     &request.evict},
	    FOLLOW_ARGUMENT(&request.timeout_ns),
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway pause",
	    .operands = "JOB",
	    .about = "Sets a running job's share of GPU time to 0: it stops at its next launch.",
	    .options = options,
	};

	return pause_change(&line, &request, argc, argv, pause_job);
}

int command_resume(int argc, char **argv)
{
	struct request request = {.timeout_ns = FOLLOW_NS};
	const struct argument options[] = {FOLLOW_ARGUMENT(&request.timeout_ns), {0}};
	const struct command_line line = {
	    .command = "spillway resume",
	    .operands = "JOB",
	    .about = "Lets a paused job go on with the share it had, and its memory come back.",
	    .options = options,
	};

	return pause_change(&line, &request, argc, argv, resume_job);
}
