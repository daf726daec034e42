/* SPDX-License-Identifier: MIT */
/* spillway set: changes a running job's limits through its override file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow.h"
#include "tools/formats/save.h"
#include "tools/cli/settings.h"
#include "tools/formats/shares.h"
#include "tools/view/arguments.h"
#include "tools/view/configuration.h"
#include "tools/view/jobs.h"
#include "tools/view/selectors.h"
#include "tools/view/tool.h"

struct set {
	struct settings settings;
	const char *job;
	const char *save; /* NULL: nowhere */
	uint64_t timeout_ns;
};

static void set_read_command_line(struct set *set, int argc, char **argv)
{
	const struct argument options[] = {
	    {"save", 0, "FILE", "Write the job's limits into an INI file, too", argument_file,
	     &set->save},
	    FOLLOW_ARGUMENT(&set->timeout_ns),
	    {0},
	};
	struct argument limits[SETTINGS_ARGUMENTS];
	const struct command_line line = {
	    .command = "spillway set",
	    .operands = "JOB",
	    .about = "Changes the limits of a running job and waits until all its processes obey.",
	    .options = options,
	    .limits = limits,
	};

	set->timeout_ns = FOLLOW_NS;
	settings_arguments(&set->settings, limits);
	set->job = arguments_job(arguments_read(&line, argc, argv), true);
	settings_check(&set->settings);
	if (!settings_any(&set->settings) && !set->save)
		usage_error("nothing to set");
}

/* Keeps the share for `resume` where the job is paused: its share is 0 until then. */
static bool keep_share_for_resume(struct set *set)
{
	const char **share = &set->settings.value[CONFIG_KEY_share];
	struct config_pause pause;
	struct shares saved;
	char *file = jobs_file(set->job, "paused");
	bool done = true;

	if (*share && jobs_pause(set->job, &pause)) {
		printf("%s is paused: the share holds from 'spillway resume' on\n", set->job);
	} else if (*share && shares_read(file, &saved)) { /* of an earlier version */
		shares_set(&saved, set->settings.selector, *share);
		done = shares_write(file, &saved);
		*share = NULL;
		printf("%s is paused: the share holds from 'spillway resume' on\n", set->job);
	}
	free(file);
	return done;
}

/*
 * Returns whether the job has such a GPU, and its processes know such settings. Before a job knows
 * its GPUs it may have any.
 */
static bool job_can_have(struct set *set, struct config_change *change)
{
	static struct config_device device[SEGMENT_DEVICES];
	const char *selector = set->settings.selector;
	struct segment_view *view = jobs_read(set->job);
	bool is_known;
	char *known;
	int count;

	if (!view)
		return false;
	count = selectors_devices(view, device);
	is_known = settings_are_known(&set->settings, set->job, view->version);
	set->settings.job_version = view->version;
	segment_view_free(view);
	if (!is_known)
		return false;
	change->devices = count ? device : NULL;
	change->device_count = (size_t)count;
	if (count == 0 || selectors_name_any(selector, device, count))
		return true;
	known = selectors_list(device, count);
	complain("--limit-gpu '%s': job '%s' has no such GPU; it has %s", selector, set->job,
	         known);
	free(known);
	return false;
}

/* Warns of values that will not hold as written; an error is follow()'s to print. */
static void warn(const char *override_file)
{
	const struct config_sources sources = {
	    .system_file = CONFIG_SYSTEM_FILE,
	    .override_file = override_file,
	    .environment = environ,
	};
	struct config *config = NULL;
	struct config_error error;

	if (config_load(&sources, &config, &error) == 0)
		configuration_warn(config, NULL);
	config_release(config);
}

/*
 * Keeps standard output for the INI that is saved to it, which has it for itself: messages go to
 * standard error. Returns the output, or -1.
 */
static int keep_output_for(const char *save)
{
	int output = save && strcmp(save, "-") == 0 ? dup(STDOUT_FILENO) : -1;

	if (output >= 0)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	return output;
}

static bool set_save(const struct set *set, const char *path, int output)
{
	bool saved;

	if (!set->save)
		return true;
	if (output >= 0) {
		fflush(stdout);
		dup2(output, STDOUT_FILENO);
	}
	saved = save_limits(set->job, path, set->save);
	if (output >= 0)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	return saved;
}

/* Says of each GPU where more lies on the host than a new limit there. */
static void say_beyond_on_host(const struct set *set)
{
	const char *given = set->settings.value[CONFIG_KEY_host_memory];
	struct segment_view *view;
	uint64_t limit;
	char size[32];

	if (!given || units_parse_size(given, &limit) != 0)
		return;
	view = jobs_read(set->job);
	for (int i = 0; view && i < view->device_count; i++)
		if (view->charged[i][SEGMENT_ON_HOST] > limit)
			printf(
			    "gpu %d: %s on the host, more than --host-memory %s: it stays "
			    "there, and nothing more goes there\n",
			    i,
			    units_format_size(view->charged[i][SEGMENT_ON_HOST], size, sizeof size),
			    given);
	segment_view_free(view);
}

int command_set(int argc, char **argv)
{
	struct set set = {0};
	struct config_change change = {0};
	struct deadline patience;
	char *path;
	bool done, saved, is_changed;
	int output, status;

	set_read_command_line(&set, argc, argv);
	patience = DEADLINE_IN(set.timeout_ns);
	output = keep_output_for(set.save);
	path = follow_override_path(set.job);
	if (!path)
		return TOOL_FAILED;
	change.path = path;
	done = job_can_have(&set, &change) && keep_share_for_resume(&set);
	is_changed = done && settings_any(&set.settings);
	if (is_changed)
		done = settings_change(&set.settings, &change, &patience);
	if (done)
		warn(path);
	saved = done && (is_changed || set_save(&set, path, output));
	status = done ? follow_change(set.job, set.timeout_ns, is_changed ? &change : NULL)
	              : TOOL_FAILED;
	/* A value that is taken back, or holds nowhere, is not saved. */
	if (is_changed)
		saved = status == TOOL_OK && set_save(&set, path, output);
	if (status == TOOL_OK)
		say_beyond_on_host(&set);
	free(change.before);
	free(path);
	return saved && status == TOOL_OK ? TOOL_OK : TOOL_FAILED;
}
