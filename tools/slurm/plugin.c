/* SPDX-License-Identifier: MIT */
/*
 * A SPANK plugin for Slurm: a job asks for GPU memory and share at its submission, and both hold
 * on the node for all programs of the job.
 *
 * Where each part runs, and as which user:
 *
 * srun, sbatch, salloc      the user    options are checked; a bad one ends the command
 * the prolog, on each node  root        the job's files are written (files.h)
 * a task, before it is      root        they are mounted over the machine's (mounts.h)
 *   the user's
 * when a step's last task    root        the use goes into AdminComment
 *   on a node has ended
 * the epilog, on each node  root        the use is logged, the files go
 *
 * The prolog never fails, because that would drain the node: on an error it leaves the reason, and
 * each task of the job fails with it. Values that the user's command has checked are checked again:
 * the user may run one without this plugin.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/slurm/facts.h"
#include "tools/slurm/files.h"
#include "tools/slurm/mounts.h"
#include "tools/slurm/options.h"
#include "tools/slurm/used.h"

SPANK_PLUGIN(spillway, 1)

enum { LINE_MAX_SIZE = PATH_MAX + 256 };

/* Returns the number of the job at hand; 0: there is none. */
static uint32_t plugin_job_of(spank_t spank)
{
	uint32_t id = 0;

	return spank_get_item(spank, S_JOB_ID, &id) == ESPANK_SUCCESS ? id : 0;
}

/* Fills in the job's values: from its options, its shards, or the defaults. */
static bool plugin_settle(spank_t spank, const struct arguments *arguments,
                          const struct job_facts *facts, struct job_settings *settings, char *part,
                          size_t part_size, char *message, size_t size)
{
	bool has_gpu = facts->gpus > 0 || facts->shards > 0;

	if (facts->shards > 0 && arguments->of_shards) {
		uint64_t thousandths = UINT64_C(100000) * facts->shards / facts->all_shards;

		if (thousandths == 0)
			thousandths = 1; /* 0 would be nothing at all */
		snprintf(part, part_size, "%" PRIu64 ".%03" PRIu64 "%%", thousandths / 1000,
		         thousandths % 1000);
		settings->value[OPTION_memory] = part;
		settings->value[OPTION_share] = part;
		settings->is_weight = true;
	}
	for (int i = 0; i < JOB_OPTION_COUNT; i++) {
		const char *asked;

		if (!settings->value[i] && has_gpu)
			settings->value[i] = arguments->standard[i];
		if (!options_find(spank, (enum job_option)i, &asked, message, size))
			return false;
		if (!asked)
			continue;
		settings->value[i] = asked;
		if (i == OPTION_share)
			settings->is_weight = false;
	}
	return true;
}

static bool plugin_is_limited(const struct job_settings *settings)
{
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		if (settings->value[i])
			return true;
	return false;
}

static bool plugin_prepare(spank_t spank, const struct arguments *arguments,
                           const struct job_files *files, uint32_t job, char *message, size_t size)
{
	struct job_settings settings = {.id = job};
	struct job_facts facts;
	char part[32];

	if (spank_get_item(spank, S_JOB_UID, &settings.user) != ESPANK_SUCCESS) {
		snprintf(message, size, "Slurm does not name the user of the job");
		return false;
	}
	if (!facts_ask(job, &facts, message, size))
		return false;
	settings.labels = facts.labels;
	if (!plugin_settle(spank, arguments, &facts, &settings, part, sizeof part, message, size))
		return false;
	return plugin_is_limited(&settings)
	           ? files_write(files, arguments, &settings, message, size)
	           : files_leave_free(files, message, size);
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (spank_context() == S_CTX_SLURMD)
		files_make_targets();
	return options_register(spank);
}

int slurm_spank_job_prolog(spank_t spank, int argc, char **argv)
{
	char message[LINE_MAX_SIZE], reason[LINE_MAX_SIZE];
	struct arguments arguments;
	struct job_files files;
	uint32_t job = plugin_job_of(spank);
	bool is_right = plugin_words_read(argc, argv, &arguments, message, sizeof message);

	files_name(&arguments, job, &files);
	if (!files_begin(&files, reason, sizeof reason)) {
		slurm_error("spillway: %s", reason); /* and tasks find no directory */
		return 0;
	}
	if (is_right && plugin_prepare(spank, &arguments, &files, job, message, sizeof message))
		return 0;
	slurm_error("spillway: job %u: %s", job, message);
	files_refuse(&files, message);
	return 0;
}

/* Says that a step's options change nothing where they ask for something else than its job has. */
static void say_if_step_differs(spank_t spank, const struct job_files *files, uint32_t job,
                                bool is_limited)
{
	const char *value[JOB_OPTION_COUNT];
	char message[LINE_MAX_SIZE], parts[16];
	int differing, task = 0;

	spank_get_item(spank, S_TASK_ID, &task);
	if (task != 0) /* is said once on each node */
		return;
	/* srun sends the options of a heterogeneous job's last part with the steps of all parts. */
	if (spank_getenv(spank, "SLURM_HET_SIZE", parts, sizeof parts) == ESPANK_SUCCESS)
		return;
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		if (!options_find(spank, (enum job_option)i, &value[i], message, sizeof message))
			value[i] = NULL;
	differing = settings_differ(files->ini, value);
	if (differing == JOB_OPTION_COUNT)
		return;
	if (is_limited)
		slurm_spank_log("spillway: --%s=%s: not followed: a step has its job's limits; "
		                "'spillway set slurm-%u' lowers them for the whole job",
		                option_name((enum job_option)differing), value[differing], job);
	else
		slurm_spank_log("spillway: --%s=%s: not followed: a step has its job's limits, and "
		                "the job was given none; give the option to sbatch or salloc",
		                option_name((enum job_option)differing), value[differing]);
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char **argv)
{
	char message[LINE_MAX_SIZE];
	struct arguments arguments;
	struct job_files files;
	enum files_found found = FILES_REFUSED;
	bool is_right = plugin_words_read(argc, argv, &arguments, message, sizeof message);

	files_name(&arguments, plugin_job_of(spank), &files);
	if (is_right)
		found = files_look(&files, message, sizeof message);
	if (found == FILES_LEAVE_FREE ||
	    (found == FILES_LIMIT && mounts_make(&files, message, sizeof message))) {
		say_if_step_differs(spank, &files, plugin_job_of(spank), found == FILES_LIMIT);
		return 0;
	}
	slurm_error("spillway: the job's limits cannot be enforced here: %s", message);
	return -1;
}

/*
 * Reads the arguments up to a bad word, and the job's use of this node until now. Returns whether
 * there is anything.
 */
static bool read_used(spank_t spank, int argc, char **argv, struct arguments *arguments,
                      struct job_files *files, struct used *used)
{
	char message[LINE_MAX_SIZE];
	uid_t user;

	plugin_words_read(argc, argv, arguments, message, sizeof message);
	files_name(arguments, plugin_job_of(spank), files);
	return access(files->ini, F_OK) == 0 &&
	       spank_get_item(spank, S_JOB_UID, &user) == ESPANK_SUCCESS &&
	       used_read(files, plugin_job_of(spank), user, used);
}

/* Comes before srun is told that the task has ended: later, and in the epilog, the job may have
 * ended, and Slurm changes no ended job. */
int slurm_spank_task_exit(spank_t spank, int argc, char **argv)
{
	static uint32_t ended; /* of this step's tasks on this node */
	char message[LINE_MAX_SIZE], line[sizeof(struct used)];
	struct arguments arguments;
	struct job_files files;
	struct used used;
	uint32_t tasks;

	if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
		return 0;
	if (++ended != tasks || !read_used(spank, argc, argv, &arguments, &files, &used) ||
	    !arguments.comments)
		return 0;
	snprintf(line, sizeof line, "%s%s", used.node, used.figures);
	if (!facts_put_comment(plugin_job_of(spank), used.node, line, message, sizeof message))
		slurm_error("spillway: job %u: %s", plugin_job_of(spank), message);
	return 0;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char **argv)
{
	struct arguments arguments;
	struct job_files files;
	struct used used;

	if (read_used(spank, argc, argv, &arguments, &files, &used))
		slurm_info("spillway: job %u: %s", plugin_job_of(spank), used.figures);
	files_remove(&files);
	return 0;
}
