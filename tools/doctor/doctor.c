/* SPDX-License-Identifier: MIT */
/* spillway doctor: checks this machine, and names reasons and next steps. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/driver_library.h"
#include "core/base/own_file.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "core/pages/turns.h"
#include "tools/doctor/cleanup.h"
#include "tools/doctor/companion.h"
#include "tools/doctor/driver.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/frameworks.h"
#include "tools/doctor/hint.h"
#include "tools/doctor/paths.h"
#include "tools/doctor/pod.h"
#include "tools/doctor/preload.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/program.h"
#include "tools/doctor/room.h"
#include "tools/doctor/unmanaged.h"
#include "tools/doctor/setup.h"
#include "tools/doctor/softgpu.h"
#include "tools/doctor/values.h"
#include "tools/doctor/surroundings.h"
#include "tools/view/arguments.h"
#include "tools/view/configuration.h"
#include "tools/view/counters.h"
#include "tools/view/jobs.h"
#include "tools/view/selectors.h"
#include "tools/view/tool.h"

enum { WAITS_FOR_WORK = 600 }; /* CUDA_ERROR_NOT_READY */

struct doctor {
	const char *program;
	bool clean;
	bool probe;
	bool all; /* settings that are built in, too */
	bool companion;
	struct setup setup;
};

static void doctor_read_command_line(struct doctor *doctor, int argc, char **argv)
{
	const struct argument options[] = {
	    {"clean", 0, NULL, "Remove what ended jobs left in the state directory", argument_flag,
	     &doctor->clean},
	    {"probe", 0, NULL,
	     "Probe the driver for memory on the host, once per driver and boot; root's serves all "
	     "users",
	     argument_flag, &doctor->probe},
	    {"all", 0, NULL, "Show built-in settings, too", argument_flag, &doctor->all},
	    {"companion", 0, NULL,
	     "Make the library with the driver's functions that Spillway does not know; root's "
	     "serves all users",
	     argument_flag, &doctor->companion},
	    {"setup", 0, NULL, "As root: make what jobs of several users take turns by",
	     argument_flag, &doctor->setup.is_wanted},
	    {"group", 0, "GROUP", "With --setup: the group of users that share the GPUs",
	     argument_text, &doctor->setup.group},
	    {"dry-run", 0, NULL, "With --setup: say what it would do", argument_flag,
	     &doctor->setup.is_dry},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway doctor",
	    .operands = "[PROGRAM [ARGUMENTS...]]",
	    .about =
	        "Says what works on this machine and why not, and whether PROGRAM can be run.\v"
	        "Exit status: 1 when a line says \"no\": a job cannot run, or not within its "
	        "limits; "
	        "else 0.",
	    .options = options,
	    .takes_program = true, /* its arguments make no difference */
	};

	doctor->program = *arguments_read(&line, argc, argv);
	if (!doctor->setup.is_wanted && (doctor->setup.group || doctor->setup.is_dry))
		usage_error("--group and --dry-run: expected --setup beside them");
}

static bool check_shim(struct paths *paths)
{
	char message[3 * PATH_MAX];

	if (!paths_shim(paths, message, sizeof message)) {
		finding(FINDING_NO, "shim: %s", message);
		finding_try("make install PREFIX=~/.local, in Spillway's folder");
		return false;
	}
	finding(FINDING_OK, "shim: %s, %s", paths->shim, strrchr(paths->alias, '/') + 1);
	return true;
}

/* Says so where the program that probes drivers is not beside the shim; a job runs without it. */
static void check_probe_program(const char *shim)
{
	char program[PATH_MAX];

	probe_program(shim, program, sizeof program);
	if (access(program, X_OK) == 0)
		return;
	finding(FINDING_NOTE,
	        "driver probe: %s: %s: without a probe, drivers before R595 do not give memory on "
	        "the host by vmm_numa, and no allocation is partly on the GPU and partly on the "
	        "host",
	        program, strerror(errno));
	finding_try("copy driver-probe to where libspillway.so lies");
}

static const char *provider_name(unsigned int code)
{
	return counter_field_word(offsetof(struct statistics, provider), code);
}

/*
 * Prints the provider that serves the GPU: the first that works; whether live memory can move,
 * depends on which.
 */
static void print_choice(int gpu, const struct driver_features *features)
{
	unsigned int code = PROVIDER_NUMA;

	while (code <= PROVIDER_PINNED && features->provider_error[code])
		code++;
	if (code > PROVIDER_PINNED)
		finding(FINDING_NOTE,
		        "gpu %d: host memory: no provider works, nothing can be spilled", gpu);
	else
		finding(code <= PROVIDER_HOST ? FINDING_OK : FINDING_NOTE,
		        "gpu %d: host memory: by %s, %s", gpu, provider_name(code),
		        code <= PROVIDER_HOST ? "which can move" : "which cannot move");
}

static void print_providers(int gpu, const struct driver_features *features)
{
	char meaning[32];

	if (features->context_error) {
		finding(FINDING_NO, "gpu %d: providers: not tried, a context cannot be had: %s",
		        gpu, counter_error(features->context_error, meaning, sizeof meaning));
		return;
	}
	if (!features->providers_tried)
		return;
	for (unsigned int code = PROVIDER_NUMA; code <= PROVIDER_PINNED; code++) {
		unsigned int error = features->provider_error[code];

		finding(error ? FINDING_NOTE : FINDING_OK, "gpu %d: provider %s%s%s", gpu,
		        provider_name(code), error ? ": " : "",
		        error ? counter_error(error, meaning, sizeof meaning) : "");
	}
	print_choice(gpu, features);
	if (features->charge == CHARGE_UNKNOWN)
		finding(FINDING_OK,
		        "gpu %d: spilled memory: whether a memory cgroup is charged with it is not "
		        "known",
		        gpu);
	else
		finding(FINDING_OK, "gpu %d: spilled memory: %s to this memory cgroup", gpu,
		        features->charge == CHARGE_YES ? "is charged" : "is not charged");
	finding(features->ipc_error ? FINDING_NOTE : FINDING_OK, "gpu %d: IPC%s%s", gpu,
	        features->ipc_error ? ": " : "",
	        features->ipc_error ? counter_error(features->ipc_error, meaning, sizeof meaning)
	                            : "");
}

static const char *probe_word(int answer, char *buf, size_t size)
{
	if (answer == 0)
		return "works";
	if (answer == PROBE_CRASHED)
		return "crashes";
	return counter_error((unsigned int)answer, buf, size);
}

/* Prints the findings of the driver's probe for a kind of device, or that there are none. */
static void print_probe(const struct driver_report *report, int index)
{
	const char *name = report->features[index].name;
	int ordinal = report->device[index].ordinal, unmap;
	char key[PROBE_LINE_MAX], path[PATH_MAX], word[5][32], nodes[512] = "";
	struct probe_answers answers;
	enum probe_place place;
	size_t length = 0;

	probe_cache_key(report->version, name, key, sizeof key);
	if (!probe_cache_look_up(key, &answers, &place)) {
		finding(FINDING_OK,
		        "gpu %d: driver probe: none yet of this driver since this boot, so that "
		        "each allocation moves as a whole; 'spillway doctor --probe' makes it, and "
		        "'spillway run' beside a CUDA program",
		        ordinal);
		return;
	}
	for (int i = 0; i < PROBE_NODES && length < sizeof nodes - 64; i++)
		if (answers.numa[i] != PROBE_UNKNOWN)
			length += (size_t)snprintf(
			    nodes + length, sizeof nodes - length, "memory of NUMA node %d %s, ", i,
			    probe_word(answers.numa[i], word[0], sizeof word[0]));
	unmap = answers.of[PROBE_UNMAP];
	finding(FINDING_OK,
	        "gpu %d: driver probe: %s (%s): CUDA %d.%d, this boot: %smemory of the host %s, "
	        "copies: %s, copies in graphs: %s, copies over both tiers: %s, unmapping beside "
	        "work: %s",
	        ordinal, probe_cache_path(place, path, sizeof path),
	        place == PROBE_OF_ROOT ? "root's, for all users" : "this user's",
	        report->version / 1000, report->version % 1000 / 10, nodes,
	        probe_word(answers.of[PROBE_HOST], word[0], sizeof word[0]),
	        probe_word(answers.of[PROBE_COPY], word[1], sizeof word[1]),
	        probe_word(answers.of[PROBE_NODE], word[2], sizeof word[2]),
	        probe_word(answers.of[PROBE_MIXED], word[3], sizeof word[3]),
	        unmap == WAITS_FOR_WORK ? "waits for it"
	                                : probe_word(unmap, word[4], sizeof word[4]));
}

/* Complains of caches that no process reads. */
static void check_probe_caches(void)
{
	char path[PATH_MAX], text[PROBE_CACHE_MAX];

	for (int i = 0; i < PROBE_PLACES; i++) {
		int error = probe_cache_read((enum probe_place)i, text);

		if (error == 0 || error == -ENOENT || error == -ENOTDIR)
			continue;
		probe_cache_path((enum probe_place)i, path, sizeof path);
		finding(FINDING_NOTE, "driver probe: %s is not read: %s", path,
		        error == -EPERM ? "another user owns it or may write to it"
		                        : own_file_error(error));
		finding_try("rm '%s' and spillway doctor --probe%s", path,
		            i == PROBE_OF_ROOT ? ", as root" : "");
	}
}

/* Prints which users take turns on a GPU. */
static void print_turns(const struct config_device *device)
{
	char path[2 * PATH_MAX], message[2 * PATH_MAX];
	bool by_root, found;

	found = turns_find(device->uuid, path, sizeof path, &by_root, message, sizeof message);
	if (*message)
		finding(FINDING_NOTE, "gpu %d: turns: %s", device->ordinal, message);
	if (found)
		finding(FINDING_OK, "gpu %d: turns: by %s, among %s", device->ordinal, path,
		        by_root ? "jobs of all users that may write to it"
		                : "jobs of this user; shares of several users do not hold together "
		                  "until root runs 'spillway doctor --setup --group GROUP'");
}

static void doctor_print_device(const struct config_device *device,
                                const struct driver_features *features)
{
	char memory[32];

	finding(FINDING_OK, "gpu %d: %s, %s, %s, %s", device->ordinal, features->name,
	        units_format_size(device->memory, memory, sizeof memory), device->uuid,
	        device->pci_bus_id);
	finding(features->vmm ? FINDING_OK : FINDING_NOTE, "gpu %d: virtual memory management%s",
	        device->ordinal, features->vmm ? "" : ": not supported, memory cannot move");
	print_providers(device->ordinal, features);
	print_turns(device);
}

/* Prints what is set by `spillway run --softgpu` for a program. */
static void report_softgpu(const char *program)
{
	char folder[PATH_MAX], driver[PATH_MAX], message[PATH_MAX];

	if (paths_softgpu(folder, driver, message, sizeof message))
		softgpu_report(folder, program);
}

static bool has_softgpu(void)
{
	char folder[PATH_MAX], driver[PATH_MAX], message[PATH_MAX];

	return paths_softgpu(folder, driver, message, sizeof message);
}

static bool no_driver(const char *from)
{
	finding(has_softgpu() ? FINDING_NOTE : FINDING_NO,
	        "driver: no CUDA driver is installed here: there is no usable libcuda.so.1 in %s",
	        from);
	if (has_softgpu())
		finding_try("spillway run --softgpu PROGRAM, which needs none");
	return false;
}

/* Prints the fault of a driver that is there. */
static bool bad_driver(const char *said)
{
	const char *named = getenv("SPILLWAY_DRIVER");

	finding(FINDING_NO, "driver: %s", said);
	finding_try(named && *named ? "unset SPILLWAY_DRIVER"
	                            : "nvidia-smi, which meets the same if it is not Spillway's");
	return false;
}

/* Returns the names with commas between; the caller frees it. */
static char *list_names(const struct companion *companion)
{
	char *list = text("%s", companion->names[0]);

	for (int i = 1; i < companion->count; i++) {
		char *longer = text("%s, %s", list, companion->names[i]);

		free(list);
		list = longer;
	}
	return list;
}

/* Says so where the machine's list has the shim without the companion library. */
static bool check_machine_list(const char *shim, const struct companion *companion)
{
	char list[4096], *has_shim, *has_companion;
	bool lacks;

	preload_machine_list(list, sizeof list);
	has_shim = preload_find(list, shim);
	has_companion = preload_find(list, companion->shared);
	lacks = has_shim && !(has_companion && strcmp(companion->file, companion->shared) == 0);
	if (lacks) {
		finding(FINDING_NOTE,
		        "companion library: " PRELOAD_MACHINE_LIST
		        " has Spillway and no library with these functions: a program that is "
		        "linked to one of them does not start without 'spillway run'");
		if (has_companion)
			finding_try("spillway doctor --companion, as root");
		else
			finding_try("spillway doctor --companion && echo %s >>" PRELOAD_MACHINE_LIST
			            ", as root",
			            companion->shared);
	}
	free(has_shim);
	free(has_companion);
	return lacks;
}

/* Says which functions of the driver the shim does not know. */
static void print_unlisted(const char *shim, const char *driver)
{
	struct companion companion;
	char *names;

	if (!companion_look(&companion, shim, driver))
		return;
	names = list_names(&companion);
	finding(
	    true,
	    "driver: functions that Spillway does not know: %d (%s): they reach the driver, and "
	    "are neither limited nor counted",
	    companion.count, names);
	free(names);
	if (!check_machine_list(shim, &companion))
		finding(FINDING_OK, "companion library: %s",
		        *companion.file ? companion.file : "'spillway run' makes it");
}

static bool check_driver(const char *shim, struct driver_report *report)
{
	char path[PATH_MAX], file[PATH_MAX];
	bool named_is_bad, found;
	const char *from;

	found = driver_library_find(shim, NULL, path, sizeof path, &from, &named_is_bad);
	if (named_is_bad) {
		finding(FINDING_NO,
		        "driver: SPILLWAY_DRIVER = %s: expected the absolute path of a CUDA driver "
		        "library; looking in the usual places",
		        getenv("SPILLWAY_DRIVER"));
		finding_try("unset SPILLWAY_DRIVER");
	}
	if (!found)
		return no_driver(from);
	driver_probe(path, report);
	if (!realpath(path, file))
		strcpy(file, path);
	if (report->version == 0) {
		char *said = text("%s: %s", path, report->said);

		bad_driver(said);
		free(said);
		return false;
	}
	finding(FINDING_OK, "driver: %s (%s), CUDA %d.%d, found by %s", path,
	        strrchr(file, '/') + 1, report->version / 1000, report->version % 1000 / 10, from);
	print_unlisted(shim, path);
	for (int i = 0; i < report->device_count; i++) {
		doctor_print_device(&report->device[i], &report->features[i]);
		print_probe(report, i);
	}
	if (report->device_count)
		finding(FINDING_OK,
		        "nvidia-smi: in a job the GPU's memory is the job's limit and use; the "
		        "list of processes is NVML's own, from a private table");
	if (*report->said)
		return bad_driver(report->said);
	if (report->device_count == 0) {
		finding(FINDING_NO, "driver: it knows no device%s",
		        getenv("CUDA_VISIBLE_DEVICES") ? "; CUDA_VISIBLE_DEVICES is set" : "");
		finding_try(getenv("CUDA_VISIBLE_DEVICES") ? "unset CUDA_VISIBLE_DEVICES"
		                                           : "nvidia-smi -L");
		return false;
	}
	return true;
}

/* Checks the selectors of `run --limit-gpu`, which were given before the job's GPUs were known. */
static void check_override(const struct segment_view *view)
{
	struct config_device device[SEGMENT_DEVICES];
	int count = selectors_devices(view, device);
	char *path = jobs_file(view->job, "override.ini");

	if (count)
		selectors_check(path, device, count, values_idle_section);
	free(path);
}

/* Tells of an ended job that looked at its memory, took little of it and launched nothing. */
static void check_looked(const struct segment_view *view)
{
	int gpu = hint_looked_first(view);
	char *hint;

	if (gpu < 0 || !hint_did_nothing(view))
		return;
	hint = hint_text(view, gpu);
	finding(FINDING_OK, "job %s: ended without a launch: %s", view->job, hint);
	free(hint);
}

static void remove_ended(const char *job)
{
	int rc = cleanup_job(job);

	if (rc == -EBUSY) {
		finding(FINDING_NOTE,
		        "job %s: is in use, or ended less than %d s ago, so it is left alone", job,
		        (int)(SEGMENT_GONE_NS / 1000000000));
		finding_try("spillway doctor --clean, %d s from now",
		            (int)(SEGMENT_GONE_NS / 1000000000));
	} else if (rc == -EPROTO) { /* of another version, and perhaps in use, or damaged */
		char *file = jobs_file(job, "segment");

		finding(FINDING_NOTE,
		        "job %s: cannot be read, so it is left alone; remove its "
		        "file if no process uses it",
		        job);
		finding_try("rm '%s'", file);
		free(file);
	} else {
		finding(rc == 0 ? FINDING_OK : FINDING_NO, "ended job %s: %s", job,
		        rc == 0 ? "removed" : strerror(-rc));
	}
}

/* Tells of a job that is paused, or was when its last process ended. */
static void check_pause(const struct segment_view *view)
{
	struct config_pause pause;
	char since[32] = "";
	bool lives = jobs_live_process(view);

	if (!jobs_pause(view->job, &pause))
		return;
	if (pause.since_ns)
		time_text(pause.since_ns, since, sizeof since);
	finding(FINDING_OK, "job %s: %s%s%s%s%s", view->job,
	        lives ? "is paused" : "ended while it was paused", *pause.by ? " by " : "",
	        pause.by, *since ? " since " : "", since);
	if (lives)
		finding_try("spillway resume %s", view->job);
	else
		finding(FINDING_OK,
		        "job %s: the pause has ended with it and holds no later process",
		        view->job);
}

/* Counts ended jobs, or removes their files. */
static void check_ended(bool clean)
{
	struct jobs_walk walk = jobs_walk(NULL);
	int ended = 0, pages = clean ? cleanup_told() : 0, turns = clean ? turns_clean() : 0;
	int rings = clean ? cleanup_rings() : 0;

	while (jobs_next(&walk)) {
		if (walk.view && !clean) {
			check_override(walk.view);
			check_pause(walk.view);
		}
		/* One that cannot be read has been complained of; no command can use it. */
		if (walk.view && jobs_live_process(walk.view))
			continue;
		if (walk.view && !clean)
			check_looked(walk.view);
		ended++;
		if (clean)
			remove_ended(walk.name);
	}
	if (pages)
		finding(FINDING_OK, "pages of killed jobs: %d removed", pages);
	if (turns)
		finding(FINDING_OK, "turn files of other versions: %d removed", turns);
	if (rings)
		finding(FINDING_OK, "events of jobs that are gone: %d removed", rings);
	if (!clean)
		finding(FINDING_OK, "jobs: %d, of which %d ended%s", walk.list.count, ended,
		        ended ? "; 'spillway doctor --clean' removes those" : "");
}

static void check_state(bool clean)
{
	char path[PATH_MAX], message[PATH_MAX + 128];
	bool passed_over;

	if (!room_for_job(message, sizeof message)) {
		finding(FINDING_NO, "state directory: %s", message);
		finding_try("export SPILLWAY_STATE_DIR=/tmp/spillway-%d", (int)geteuid());
		return;
	}
	directory_path(path, sizeof path);
	passed_over = directory_passed_over(message, sizeof message);
	finding(FINDING_OK, "state directory: %s", passed_over ? message : path);
	check_ended(clean);
	if (!clean)
		unmanaged_findings();
}

static void check_program(const char *program)
{
	char message[2 * PATH_MAX], path[PATH_MAX];
	bool good = program_can_be_shimmed(paths_try(program, path), message, sizeof message);

	finding(good ? FINDING_OK : FINDING_NO, "program: %s", message);
}

/* Prints the next command, in the last line of all. */
static void say_next(bool has_driver, const char *program)
{
	const char *what = program ? program : "PROGRAM";
	char path[PATH_MAX];

	if (!finding_is_well())
		finding_next("mend what says \"no\", from the top, then 'spillway doctor' again");
	/* `run` finds a program that is installed with the software GPU with --softgpu alone. */
	else if (!has_driver || (program && paths_try(program, path) == path))
		finding_next("spillway run --softgpu --memory 50%% %s, on the software GPU", what);
	else
		finding_next("spillway run --memory 50%% %s", what);
}

/* Makes the probe of the driver, and says where it is. */
static int make_probe(void)
{
	char path[PATH_MAX], message[3 * PATH_MAX];
	enum probe_outcome outcome = PROBE_FAILED;
	struct paths paths;
	bool named_is_bad;
	const char *from;

	if (!check_shim(&paths))
		return TOOL_FAILED;
	if (!driver_library_find(paths.shim, NULL, path, sizeof path, &from, &named_is_bad))
		snprintf(message, sizeof message, "there is no CUDA driver in %s", from);
	else
		outcome = probe_make(paths.shim, path, true, message, sizeof message);
	if (outcome == PROBE_FAILED)
		finding(FINDING_NO, "driver probe: %s", message);
	else
		finding(FINDING_OK, "driver probe: %s: %s", message,
		        outcome == PROBE_MADE ? "made" : "has this driver since this boot");
	return finding_is_well() ? TOOL_OK : TOOL_FAILED;
}

/*
 * Makes the companion library, root's beside the shim, and prints the line to preload it by hand.
 */
static void make_companion(const struct paths *paths, const char *driver, bool is_dry)
{
	char message[2 * PATH_MAX];
	struct companion companion;

	if (!companion_look(&companion, paths->shim, driver)) {
		finding(FINDING_OK,
		        "companion library: none is needed: Spillway knows all functions of %s",
		        driver);
	} else if (is_dry) {
		finding(FINDING_OK, "companion library: %s: would be made, with %d functions",
		        companion.shared, companion.count);
	} else if (!companion_make(&companion, geteuid() == 0, message, sizeof message)) {
		finding(FINDING_NO, "companion library: %s", message);
	} else {
		finding(FINDING_OK,
		        "companion library: %s: %d functions of %s that Spillway does not know",
		        companion.file, companion.count, driver);
		if (!check_machine_list(paths->shim, &companion))
			finding_next("where 'spillway run' starts no program: LD_PRELOAD='%s %s "
			             "%s'",
			             paths->shim, paths->alias, companion.file);
	}
}

/* Does that alone. */
static int companion_alone(void)
{
	char driver[PATH_MAX];
	struct paths paths;
	bool named_is_bad;
	const char *from;

	if (!check_shim(&paths))
		return TOOL_FAILED;
	if (!driver_library_find(paths.shim, NULL, driver, sizeof driver, &from, &named_is_bad))
		finding(FINDING_NO, "companion library: there is no CUDA driver in %s", from);
	else
		make_companion(&paths, driver, false);
	return finding_is_well() ? TOOL_OK : TOOL_FAILED;
}

/* Does root's set-up in place of a report. */
static int set_up(const struct doctor *doctor)
{
	struct driver_report report = {0};
	struct paths paths = {0};
	char path[PATH_MAX] = "", message[3 * PATH_MAX];
	bool named_is_bad;
	const char *from;

	paths_shim(&paths, message, sizeof message);
	if (driver_library_find(paths.shim, NULL, path, sizeof path, &from, &named_is_bad))
		driver_probe(path, &report);
	setup_make(&doctor->setup, &report);
	if (*paths.shim && *path)
		make_companion(&paths, path, doctor->setup.is_dry);
	return finding_is_well() ? TOOL_OK : TOOL_FAILED;
}

int command_doctor(int argc, char **argv)
{
	struct doctor doctor = {0};
	struct driver_report report = {0};
	struct paths paths = {0};
	bool has_shim, has_driver;
	struct pod pod;

	doctor_read_command_line(&doctor, argc, argv);
	if (doctor.probe)
		return make_probe();
	if (doctor.companion)
		return companion_alone();
	if (doctor.setup.is_wanted)
		return set_up(&doctor);
	pod = pod_find();
	has_shim = !pod.is_ours && check_shim(&paths);
	if (*pod.library)
		pod_explain(&pod);
	has_driver = check_driver(pod.is_ours ? pod.library : paths.shim, &report);
	if (has_shim)
		check_probe_program(paths.shim);
	check_probe_caches();
	check_state(doctor.clean);
	surroundings_container(!has_driver && has_softgpu());
	frameworks_report();
	report_softgpu(doctor.program);
	values_check(&report, &pod, doctor.all);
	if (doctor.program)
		check_program(doctor.program);
	if (finding_is_well() && pod.is_ours)
		finding_next(
		    "start the program as ever; root on the node sees it by 'spillway stat'");
	else
		say_next(has_driver, doctor.program);
	return finding_is_well() ? TOOL_OK : TOOL_FAILED;
}
