/* SPDX-License-Identifier: MIT */
/* spillway run: names a job, gives it its limits, runs the program under the shim, sums up. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/driver_library.h"
#include "core/base/file_status.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/doctor/frameworks.h"
#include "tools/view/absent_gpu.h"
#include "tools/cli/name_lock.h"
#include "tools/cli/commands.h"
#include "tools/cli/job_name.h"
#include "tools/cli/launch.h"
#include "tools/cli/settings.h"
#include "tools/cli/summary.h"
#include "tools/doctor/cleanup.h"
#include "tools/doctor/companion.h"
#include "tools/doctor/hint.h"
#include "tools/doctor/paths.h"
#include "tools/doctor/preload.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/program.h"
#include "tools/doctor/room.h"
#include "tools/doctor/softgpu.h"
#include "tools/view/arguments.h"
#include "tools/view/configuration.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"
#include "tools/whatif/whatif.h"

struct run {
	struct settings settings;
	const char *name;
	const char *config_file;
	bool join;
	bool is_named; /* by the user, here or in a file or the environment */
	bool common;   /* the name is one that others are meant to have too */
	bool softgpu;
	bool quiet, summary_is_json;
	const char *record; /* the file for what-if; NULL: none */
	char **program;
};

static void take_name_of_job(const struct argument *argument, const char *value)
{
	if (*value == '-' || directory_check_name(value) != 0)
		usage_error("--name '%s': expected 1 to 63 of A-Z a-z 0-9 . _ - not beginning with "
		            "a dot or a dash",
		            value);
	argument_text(argument, value);
}

static void take_summary(const struct argument *argument, const char *value)
{
	bool is_json = strcmp(value, "json") == 0;

	if (!is_json && strcmp(value, "text") != 0)
		usage_error("--summary '%s': expected text or json", value);
	*(bool *)argument->into = is_json;
}

static void run_read_command_line(struct run *run, int argc, char **argv)
{
	const struct argument options[] = {
	    {"name", 0, "JOB", "Name of the job", take_name_of_job, &run->name},
	    {"config", 0, "FILE", "Settings for this job; see spillway.ini(5)", argument_text,
	     &run->config_file},
	    {"join", 0, NULL, "Become part of the job if it is running already", argument_flag,
	     &run->join},
	    {"softgpu", 0, NULL, "Run on the software GPU", argument_flag, &run->softgpu},
	    {"record", 0, "FILE", "Measure steps, for 'spillway what-if FILE'", argument_file,
	     &run->record},
	    {"quiet", 0, NULL, "No summary at the end", argument_flag, &run->quiet},
	    {"summary", 0, "text|json", "Form of the summary", take_summary, &run->summary_is_json},
	    {0},
	};
	struct argument limits[SETTINGS_ARGUMENTS];
	const struct command_line line = {
	    .command = "spillway run",
	    .operands = "PROGRAM [ARGUMENTS...]",
	    .about = "Runs a CUDA program as a job with limits on memory and GPU time.\v"
	             "Exit status: the program's own; 125 when spillway failed, 126 when the "
	             "program cannot be executed, 127 when it was not found, 78 when the "
	             "configuration is bad.",
	    .options = options,
	    .limits = limits,
	    .takes_program = true,
	};

	settings_arguments(&run->settings, limits);
	run->program = arguments_read(&line, argc, argv);
	if (!*run->program)
		usage_error("expected a program");
	settings_check(&run->settings);
}

static void set_environment(const char *name, const char *value)
{
	if (setenv(name, value, 1) != 0)
		fail("setting %s: %s", name, strerror(errno));
}

/* Reads what the shim will read, or says what is wrong with it and ends. */
static struct config *load_config(const char *override_file)
{
	const struct config_sources sources = {
	    .system_file = CONFIG_SYSTEM_FILE,
	    .file = configuration_file(),
	    .override_file = override_file,
	    .environment = environ,
	};
	struct config *config = NULL;
	struct config_error error;

	if (config_load(&sources, &config, &error) == 0)
		return config;
	complain("%s", error.message);
	exit(EX_CONFIG);
}

/* Chooses the job's name: given, or configured, or that of what we run in. */
static const char *choose_name(struct run *run)
{
	struct config *config = load_config(NULL);
	const char *name = run->name;

	if (config_job(config)->enforces || (!name && *config_job(config)->name))
		name = text("%s", config_job(config)->name);
	run->common |= config_job(config)->enforces;
	if (run->name && strcmp(name, run->name) != 0)
		complain("--name %s: not followed: " CONFIG_SYSTEM_FILE
		         " is enforced and the job is called %s",
		         run->name, name);
	config_release(config);
	run->is_named = name != NULL;
	return name ? name : job_name(run->program, &run->common);
}

/* Returns whether the file can be read; errno says why not. */
static bool can_read(const char *file)
{
	struct stat found;

	if (file_status(file, &found) != 0 || access(file, R_OK) != 0)
		return false;
	errno = EISDIR;
	return !S_ISDIR(found.st_mode);
}

/*
 * Tells the program which configuration file to read, by an absolute path: it may change its folder
 * before it reads this.
 */
static void use_config_file(const char *given)
{
	const char *file = given ? given : configuration_file();
	char folder[PATH_MAX], *absolute;

	if (given && !can_read(given)) {
		complain("--config %s: %s", given, strerror(errno));
		exit(EX_CONFIG);
	}
	if (!file)
		return;
	/* Links stay: of a ConfigMap the kubelet swaps one, and removes the folder behind it. */
	absolute =
	    *file != '/' && getcwd(folder, sizeof folder) ? text("%s/%s", folder, file) : NULL;
	set_environment("SPILLWAY_CONFIG", absolute ? absolute : file);
	free(absolute);
}

/*
 * Puts the folder of the programs that are installed with the software GPU at the end of PATH. So
 * they are found behind a launcher, too: "spillway run --softgpu timeout 60 train_mlp".
 */
static void add_bundled_programs(void)
{
	const char *others = getenv("PATH");
	char folder[PATH_MAX], *search;

	if (!paths_bundled(folder))
		return;
	search = text("%s:%s", others ? others : PATHS_DEFAULT, folder);
	set_environment("PATH", search);
	free(search);
}

/* Returns whether two files are the same, or lie in the same folder. */
static bool lie_together(const char *one, const char *other)
{
	char *a = realpath(one, NULL), *b = realpath(other, NULL);
	size_t folder = a ? (size_t)(paths_base(a) - a) : 0;
	bool together =
	    a && b && folder == (size_t)(paths_base(b) - b) && strncmp(a, b, folder) == 0;

	free(a);
	free(b);
	return together;
}

/* Returns whether a list has the library already, and says so where it is another one. */
static bool run_is_preloaded(const char *list, const char *from, const char *library)
{
	char *entry = preload_find(list, library);
	bool is = entry != NULL;

	if (is && !lie_together(entry, library))
		complain("%s has %s already: it stays, in place of %s", from, entry, library);
	free(entry);
	return is;
}

static void add_to_preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	char *list;

	if (others && run_is_preloaded(others, "LD_PRELOAD", library))
		return; /* a run within a run */
	list = text("%s%s%s", others ? others : "", others && *others ? ":" : "", library);
	set_environment("LD_PRELOAD", list);
	free(list);
}

static void preload(const char *library)
{
	char machine[4096];

	preload_machine_list(machine, sizeof machine);
	if (!run_is_preloaded(machine, PRELOAD_MACHINE_LIST, library))
		add_to_preload(library);
}

/*
 * Preloads the companion library, if the driver has functions that the shim does not know. It needs
 * the shim before it, and LD_PRELOAD comes before the machine's list: so the machine's shim is in
 * both.
 */
static void preload_companion(const struct paths *paths)
{
	char driver[PATH_MAX], machine[4096], message[2 * PATH_MAX], *shim;
	struct companion companion;
	bool named_is_bad;
	const char *from;

	if (!driver_library_find(paths->shim, NULL, driver, sizeof driver, &from, &named_is_bad) ||
	    !companion_look(&companion, paths->shim, driver))
		return;
	if (!companion_make(&companion, false, message, sizeof message)) {
		complain("a program that is linked to one of %d functions that Spillway does not "
		         "know, as %s is, does not start: %s",
		         companion.count, companion.names[0], message);
		return;
	}
	preload_machine_list(machine, sizeof machine);
	if (run_is_preloaded(machine, PRELOAD_MACHINE_LIST, companion.file))
		return;
	shim = preload_find(machine, paths->shim);
	if (shim)
		add_to_preload(shim);
	free(shim);
	add_to_preload(companion.file);
}

static void use_softgpu(void)
{
	char folder[PATH_MAX], driver[PATH_MAX], message[PATH_MAX];
	const char *others = getenv("LD_LIBRARY_PATH");
	char *search, *node;

	if (!paths_softgpu(folder, driver, message, sizeof message))
		fail("%s", message);
	search = others && *others ? text("%s:%s", folder, others) : text("%s", folder);
	set_environment("LD_LIBRARY_PATH", search);
	set_environment("SPILLWAY_DRIVER", driver);
	free(search);
	node = text("%s/libsoftgpu-node.so", folder);
	if (access(node, R_OK) == 0)
		preload(node);
	free(node);
	log_configure(getenv("SPILLWAY_LOG"));
	softgpu_be_found(folder);
}

/*
 * Lets the program start although GCC's AddressSanitizer wants to be the first library of a
 * program, which what is preloaded always is.
 */
static void allow_sanitizer(void)
{
	static const char option[] = "verify_asan_link_order";
	const char *others = getenv("ASAN_OPTIONS");
	char *list;

	if (others && strstr(others, option))
		return; /* the user knows */
	list = text("%s=0%s%s", option, others && *others ? ":" : "", others ? others : "");
	set_environment("ASAN_OPTIONS", list);
	free(list);
}

static void use_shim(struct paths *paths)
{
	char message[3 * PATH_MAX];

	if (!paths_shim(paths, message, sizeof message))
		fail("%s", message);
	preload(paths->shim);
	preload(paths->alias);
	preload_companion(paths);
	allow_sanitizer();
}

static void remove_if_there(char *path)
{
	if (unlink(path) != 0 && errno != ENOENT)
		fail("removing %s: %s", path, strerror(errno));
	free(path);
}

/*
 * Refuses other limits: one task of a Slurm job must not change the limits of the others unasked.
 */
static void refuse_other_limits(const struct run *run, const char *job)
{
	char *override_file = jobs_file(job, "override.ini");

	if (!settings_stand(&run->settings, override_file))
		fail("job '%s' is running with other limits; use --join to change them for all "
		     "of it, or --name for a name of its own",
		     job);
	free(override_file);
}

/*
 * Takes the name, or joins those who have it. What an ended run of this name set is no part of this
 * one. Writes the token of the run that this command begins, or "" where it joins a run.
 */
static void take_name(const struct run *run, const char *job, char token[NAME_LOCK_TOKEN_MAX])
{
	bool first, may_share = run->join || run->common;
	bool taken = name_lock_take(job, may_share, &first, token);
	struct segment_view *view = jobs_read_if_any(job);
	const struct segment_process *live = view ? jobs_live_process(view) : NULL;

	if (!taken)
		fail("job '%s' is being run by another spillway run; use --join to share its "
		     "limits, or --name for a name of its own",
		     job);
	if (live && !may_share)
		fail("job '%s' is running (process %d, %s); use --join to share its limits, or "
		     "--name for a name of its own",
		     job, (int)live->pid, live->command);
	if ((live || !first) && !run->join)
		refuse_other_limits(run, job);
	segment_view_free(view);
	set_environment("SPILLWAY_RUN", token);
	if (live || !first) {
		*token = '\0';
		return;
	}
	remove_if_there(jobs_file(job, "override.ini"));
	remove_if_there(jobs_file(job, "paused"));
	remove_if_there(jobs_file(job, "pause.ini"));
	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		char *suffix = text("survey-%d", i);

		remove_if_there(jobs_file(job, suffix));
		free(suffix);
	}
	probe_forget(job);
}

/* No spillway set holds the override file for so long. */
#define LOCK_NS 10000000000ull

/*
 * Sets the limits: the flags become the job's override; then everything the shim will read has to
 * be right.
 */
static void set_limits(const struct run *run, const char *job)
{
	char override_file[PATH_MAX];
	struct config *config;
	struct deadline patience = DEADLINE_IN(LOCK_NS);

	if (directory_override_path(job, override_file, sizeof override_file) != 0)
		fail("'%s' cannot be a job's name", job);
	if (settings_any(&run->settings) &&
	    !settings_write(&run->settings, override_file, &patience))
		exit(tool_failure);
	set_environment("SPILLWAY_JOB", job);
	config = load_config(override_file);
	configuration_warn(config, NULL);
	if (config_job(config)->is_disabled)
		complain("the environment disables Spillway: the program runs without it");
	else
		frameworks_be_modest();
	config_release(config);
}

static void make_state_directory(void)
{
	char message[PATH_MAX + 128];

	if (!room_for_job(message, sizeof message))
		fail("%s", message);
}

/* Returns whether a user ended the program, by such a signal; it did not end by itself. */
static bool is_stopped_by_user(int status)
{
	return WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM ||
	                               WTERMSIG(status) == SIGHUP || WTERMSIG(status) == SIGKILL);
}

static void print_hint(const struct segment_view *view, int status)
{
	int gpu = hint_looked_first(view);
	char *hint;

	if (gpu < 0 || status == 0 || is_stopped_by_user(status))
		return;
	hint = hint_text(view, gpu);
	complain("%s: %s", view->job, hint);
	free(hint);
}

/* Says where --memory is more than the GPU has, so that it limits nothing. */
static void say_limit_beyond(const struct run *run, const struct segment_view *view)
{
	const char *given = run->settings.value[CONFIG_KEY_memory];

	for (int i = 0; given && i < view->device_count; i++) {
		uint64_t limit = view->job_total[i].limit_set, memory = view->device[i].memory;
		char has[32];

		if (memory && limit != CONFIG_UNLIMITED && limit > memory)
			complain("--memory '%s': nothing is limited by it: gpu %d has %s", given, i,
			         units_format_size(memory, has, sizeof has));
	}
}

/* Says what spilling cost, as measured, and the limit that avoids it. */
static void say_cost(const struct segment_view *view)
{
	char *line = whatif_summary(view);

	if (line)
		complain("%s: %s", view->job, line);
	free(line);
}

/*
 * Says what the job held and waited for; and what to try. An earlier run of this name is not meant.
 */
static void run_sum_up(const struct run *run, const char *job, const char *token, int status)
{
	struct segment_view *view = allocate(sizeof *view);
	char message[512];
	/* A program without a segment never used CUDA. */
	bool is_there =
	    segment_read(job, view, message, sizeof message) == 0 && view_is_of_run(view, token);

	if (is_there && !run->quiet) {
		if (run->summary_is_json)
			summary_json(view);
		else
			summary_say(view, run->is_named);
		if (!run->summary_is_json)
			say_cost(view);
		say_limit_beyond(run, view);
		print_hint(view, status);
	}
	if (run->record && is_there)
		whatif_record(view, run->record);
	else if (run->record)
		complain("--record %s: nothing is recorded: the program has not used CUDA",
		         run->record);
	segment_view_free(view);
}

/*
 * Warns of a program that cannot be limited: it runs nevertheless. One that is not there, launch()
 * reports.
 */
static void warn_if_out_of_reach(const char *program)
{
	char path[PATH_MAX], message[2 * PATH_MAX];

	if (paths_program(program, path) &&
	    !program_can_be_shimmed(program, message, sizeof message))
		complain("%s; no limit will hold for it", message);
}

/* Warns where no program can reach a GPU: it runs nevertheless. */
static void warn_without_driver(void)
{
	char path[PATH_MAX], folder[PATH_MAX], message[PATH_MAX];
	struct paths paths;
	const char *from;
	bool named_is_bad;

	if (!paths_shim(&paths, message, sizeof message) ||
	    driver_library_find(paths.shim, NULL, path, sizeof path, &from, &named_is_bad))
		return;
	complain("no CUDA driver is found here, so that there is no GPU to limit%s",
	         paths_softgpu(folder, path, message, sizeof message)
	             ? "; 'spillway run --softgpu' needs none"
	             : "");
}

/*
 * Says a line. A program that has ended is not kept from ending by somebody who does not read it.
 */
static void run_say(const char *line)
{
	char *whole = text("spillway: %s\n", line);

	log_write(STDERR_FILENO, whole, strlen(whole));
	free(whole);
}

/* What is looked at while the program runs. */
struct watch {
	const char *job, *shim;
	uint64_t interval_ns;
	bool is_probed;
	struct absent_gpu absent; /* selector "": nothing more is to be found out */
};

/*
 * Makes the probe of the driver beside the program, once a process of the job asks for it. The
 * program does not wait: most programs take longer to start than the probe takes, and one that
 * spills before that only moves each allocation as a whole meanwhile. Looks less and less often,
 * because a program may begin late with CUDA, or never.
 */
static uint64_t watch_look(void *cookie)
{
	const uint64_t first_ns = 100000000, last_ns = 10000000000, absent_ns = 1000000000;
	struct watch *watch = cookie;

	if (*watch->absent.selector && absent_gpu_look(&watch->absent))
		watch->absent.selector = "";
	if (!watch->is_probed)
		watch->is_probed = probe_serve(watch->shim, watch->job);
	watch->interval_ns = watch->interval_ns ? 2 * watch->interval_ns : first_ns;
	if (watch->interval_ns > last_ns)
		watch->interval_ns = last_ns;
	if (*watch->absent.selector && watch->interval_ns > absent_ns)
		return absent_ns;
	return watch->is_probed && !*watch->absent.selector ? 0 : watch->interval_ns;
}

int command_run(int argc, char **argv)
{
	struct run run = {0};
	const char *job;
	struct watch watch;
	struct paths paths;
	char token[NAME_LOCK_TOKEN_MAX];
	int status;

	tool_failure = tool_usage_failure = RUN_FAILED;
	complain_to = run_say;
	run_read_command_line(&run, argc, argv);
	use_config_file(run.config_file);
	if (run.softgpu) {
		add_bundled_programs();
		use_softgpu();
	}
	job = choose_name(&run);
	use_shim(&paths);
	cleanup_old_jobs();
	make_state_directory();
	take_name(&run, job, token);
	if (run.record)
		set_environment("SPILLWAY_SURVEY", "always");
	set_limits(&run, job);
	name_lock_share();
	warn_without_driver();
	warn_if_out_of_reach(run.program[0]);
	watch =
	    (struct watch){.job = job,
	                   .shim = paths.shim,
	                   .absent = {.selector = run.settings.selector, .job = job, .run = token}};
	status = launch(run.program, watch_look, &watch);
	if (*watch.absent.selector)
		absent_gpu_say(&watch.absent);
	probe_forget(job);
	if (!run.quiet || run.record)
		run_sum_up(&run, job, token, status);
	name_lock_release();
	launch_exit(status);
}
