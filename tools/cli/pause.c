/*
 * spillway pause, resume: the share set to 0, and back to what it was; with --evict the memory
 * leaves the GPU meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/config/config.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow.h"
#include "tools/formats/shares.h"
#include "tools/view/arguments.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

struct request {
	const char *job;
	uint64_t timeout_ns;
	struct deadline patience; /* for others who write to the override file */
	bool evict;
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

/* Writes a key. value NULL: back to what the weaker layers say. */
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

static bool pause_job(struct request *request, const char *path, const char *saved_file)
{
	struct shares saved, standing;

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

static bool resume_job(struct request *request, const char *path, const char *saved_file)
{
	const char *job = request->job;
	struct shares saved, standing;
	bool evicted = is_evicted(job);

	shares_read(path, &standing);
	if (!shares_read(saved_file, &saved)) {
		const char *share = shares_get(&standing, "");

		printf(share && strcmp(share, "0") == 0
		           ? "%s is held by a share of 0, not by pause; use spillway set %s "
		             "--share PERCENT\n"
		           : "%s is not paused\n",
		       job, job);
		return true;
	}
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

static int change(const struct command_line *line, struct request *request, int argc, char **argv,
                  bool (*act)(struct request *request, const char *path, const char *saved_file))
{
	char *path, *saved_file;
	bool done;

	request->job = arguments_job(arguments_read(line, argc, argv), true);
	request->patience = DEADLINE_IN(request->timeout_ns);
	path = follow_override_path(request->job);
	if (!path)
		return TOOL_FAILED;
	saved_file = jobs_file(request->job, "paused");
	done = act(request, path, saved_file);
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

	return change(&line, &request, argc, argv, pause_job);
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

	return change(&line, &request, argc, argv, resume_job);
}
