/* SPDX-License-Identifier: MIT */
#include "tools/doctor/softgpu.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/paths.h"
#include "tools/view/arguments.h"
#include "tools/view/tool.h"
#include "tools/wheels/wheels.h"

/* Says that a variable was set. */
typedef void softgpu_say(const char *name, const char *value);

/*
 * "%s" is the software GPU's folder. XLA emits products itself, because the software GPU's cuBLAS
 * has no complex and no 8-bit types. Autotuning, of PyTorch too, would choose kernels by their
 * time, so that two runs might differ.
 */
static const struct {
	const char *name, *value;
} variables[] = {
    {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1"}, /* of the versions of NVIDIA's libraries */
    {"TRITON_PTXAS_PATH", "%s/cuda/bin/ptxas"},
    {"TRITON_PTXAS_BLACKWELL_PATH", "%s/cuda/bin/ptxas"},
    {"TORCHINDUCTOR_NATIVE_MATMUL", "1"},
    {"TORCHINDUCTOR_SHAPE_PADDING", "0"},
    {"TORCHINDUCTOR_COMPILE_THREADS", "1"},
    {"TORCHINDUCTOR_DETERMINISTIC", "1"},
    /* Memory on the host has a price: a link of 16 GB/s beside a GPU of 300, scaled. */
    {"SOFTGPU_HOST_BANDWIDTH", "421M"},
};
static const char *const xla_flags[] = {
    "--xla_gpu_cuda_data_dir=%s/cuda",
    "--xla_gpu_autotune_level=0",
    "--xla_gpu_gemm_rewrite_size_threshold=1000000000",
    "--xla_gpu_enable_triton_gemm=false",
};
static const char *const capability[] = {
    "COMPUTE_CAPABILITY_MAJOR=9",
    "COMPUTE_CAPABILITY_MINOR=0",
};

/* Returns VALUE with the folder in place of "%s". */
static char *softgpu_fill(const char *value, const char *folder)
{
	const char *place = strstr(value, "%s");

	return place ? text("%.*s%s%s", (int)(place - value), value, folder, place + 2)
	             : text("%s", value);
}

/*
 * Lists that a variable holds. An item is "NAME=VALUE". XLA's "%s" is the folder with a toolkit:
 * the software GPU's or, where there is a libdevice, that of the stand-ins. TensorFlow's kernels
 * are PTX for compute capability 9.0. For that Triton would emit wgmma, which the software GPU has
 * not.
 */
static const struct list {
	const char *name, *between;
	const char *const *items;
	size_t count;
} xla = {"XLA_FLAGS", " \t\n", xla_flags, sizeof xla_flags / sizeof *xla_flags},
  attributes = {"SOFTGPU_ATTRIBUTES", ",", capability, sizeof capability / sizeof *capability};

/* Returns whether a list names ITEM's variable. */
static bool softgpu_is_named(const char *items, const char *between, const char *item)
{
	size_t length = strcspn(item, "=");

	for (const char *next = items + strspn(items, between); *next;
	     next += strspn(next, between)) {
		size_t word = strcspn(next, between);

		if (strcspn(next, "=") == length && length <= word &&
		    strncmp(next, item, length) == 0)
			return true;
		next += word;
	}
	return false;
}

/* Returns the variable's list with the items that it lacks, or NULL where it stays as it is. */
static char *softgpu_list(const struct list *list, const char *folder)
{
	const char *others = getenv(list->name);
	char *items = text("%s", others ? others : "");
	bool is_changed = false;

	for (size_t i = 0; i < list->count; i++) {
		char *item, *longer, first;

		/* XLA_FLAGS without a dash in front is the name of a file with flags. */
		first = items[strspn(items, list->between)];
		if (list == &xla && first && first != '-')
			break;
		if (softgpu_is_named(items, list->between, list->items[i]))
			continue;
		item = softgpu_fill(list->items[i], folder);
		longer = text("%s%.*s%s", items, *items ? 1 : 0, list == &xla ? " " : ",", item);
		free(item);
		free(items);
		items = longer;
		is_changed = true;
	}
	if (is_changed)
		return items;
	free(items);
	return NULL;
}

/* Sets a variable, unless VALUE is NULL, and frees VALUE. */
static void softgpu_set(softgpu_say *say, const char *name, char *value)
{
	if (!value)
		return;
	if (setenv(name, value, 1) != 0)
		fail("setting %s: %s", name, strerror(errno));
	say(name, value);
	free(value);
}

/*
 * Finds the packages that a Python would import, and sets the variables for such wheels. Returns
 * whether the toolkit's folder for XLA is that of the stand-ins.
 */
static bool softgpu_set_for_wheels(struct wheels *wheels, const char *folder, const char *python,
                                   const char *name, softgpu_say *say)
{
	const char *others = getenv("LD_LIBRARY_PATH");
	char message[PATH_MAX + 256];
	bool is_made = wheels_find(wheels, python, name, folder);

	if (is_made && !wheels_make(wheels, folder, message, sizeof message)) {
		complain("stand-ins for libraries of NVIDIA's cannot be made: %s", message);
		is_made = false;
	}
	/* Last, so that a library that the user has wins. */
	if (is_made)
		softgpu_set(say, "LD_LIBRARY_PATH",
		            text("%s%s%s", others ? others : "", others && *others ? ":" : "",
		                 wheels->stand_ins));
	if (*wheels->tensorflow && !getenv("TRITON_OVERRIDE_ARCH"))
		softgpu_set(say, "TRITON_OVERRIDE_ARCH", text("sm80"));
	if (*wheels->tensorflow)
		softgpu_set(say, attributes.name, softgpu_list(&attributes, folder));
	return is_made && *wheels->libdevice;
}

/* Sets the variables that depend on no wheel. toolkit: the folder that has XLA's toolkit. */
static void softgpu_set_always(const char *folder, const char *toolkit, softgpu_say *say)
{
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		if (!getenv(variables[i].name))
			softgpu_set(say, variables[i].name,
			            softgpu_fill(variables[i].value, folder));
	softgpu_set(say, xla.name, softgpu_list(&xla, toolkit));
}

/* --- run --- */

static void softgpu_log(const char *name, const char *value)
{
	log_debug("--softgpu sets %s=%s", name, value);
}

void softgpu_be_found(const char *folder)
{
	char own[PATH_MAX] = "";

	softgpu_set_always(folder, folder, softgpu_log);
	/* libsoftgpu-node.so in a Python looks for it. */
	if (readlink("/proc/self/exe", own, sizeof own - 1) > 0 && setenv(WHEELS_TOOL, own, 1) != 0)
		fail("setting " WHEELS_TOOL ": %s", strerror(errno));
}

/* Has XLA's flag of ours name another toolkit's folder. */
static void softgpu_move_toolkit(const char *folder, const char *toolkit)
{
	const char *flags = getenv(xla.name);
	char *before = softgpu_fill(xla_flags[0], folder),
	     *after = softgpu_fill(xla_flags[0], toolkit);
	const char *place = flags ? strstr(flags, before) : NULL;

	if (place)
		softgpu_set(
		    softgpu_log, xla.name,
		    text("%.*s%s%s", (int)(place - flags), flags, after, place + strlen(before)));
	free(before);
	free(after);
}

int softgpu_become_python(char **words)
{
	char folder[PATH_MAX], driver[PATH_MAX], message[PATH_MAX];
	struct wheels wheels;

	tool_failure = tool_usage_failure = RUN_FAILED;
	unsetenv(WHEELS_TOOL);
	if (!words[0] || !words[1])
		usage_error("expected a Python and its words");
	log_configure(getenv("SPILLWAY_LOG"));
	if (paths_softgpu(folder, driver, message, sizeof message) &&
	    softgpu_set_for_wheels(&wheels, folder, words[0], words[1], softgpu_log))
		softgpu_move_toolkit(folder, wheels.stand_ins);
	execv(words[0], words + 1);
	complain("%s: %s", words[0], strerror(errno));
	return errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

/* --- doctor --- */

/* Finds the Python of a script's first line: "#!/venv/bin/python" or "#!/usr/bin/env python3". */
static bool softgpu_find_interpreter(const char *path, char python[PATH_MAX])
{
	char line[PATH_MAX], *rest, *part;
	FILE *file = fopen(path, "re");
	bool is_script = file && fgets(line, sizeof line, file) && strncmp(line, "#!", 2) == 0;

	if (file)
		fclose(file);
	if (!is_script)
		return false;
	for (part = strtok_r(line + 2, " \t\n", &rest); part; part = strtok_r(NULL, " \t\n", &rest))
		if (strncmp(paths_base(part), "python", 6) == 0)
			return paths_program(part, python);
	return false;
}

static bool softgpu_find_python(const char *program, char python[PATH_MAX])
{
	char path[PATH_MAX];

	if (!paths_program(program, path))
		return false;
	if (strncmp(paths_base(program), "python", 6) != 0)
		return softgpu_find_interpreter(path, python);
	snprintf(python, PATH_MAX, "%s", path);
	return true;
}

static int report_count;

static void softgpu_report_one(const char *name, const char *value)
{
	finding(FINDING_OK, "software GPU: spillway run --softgpu sets %s=%s", name, value);
	report_count++;
}

void softgpu_report(const char *folder, const char *program)
{
	char python[PATH_MAX];
	struct wheels wheels = {0};
	bool has_toolkit =
	    softgpu_find_python(program ? program : "python3", python) &&
	    softgpu_set_for_wheels(&wheels, folder, python, python, softgpu_report_one);

	if (*wheels.tensorflow && !*wheels.libdevice) {
		finding(FINDING_NOTE,
		        "software GPU: TensorFlow has no libdevice.10.bc, which is in Triton's "
		        "wheel: what XLA compiles for it may not use exp and the like");
		finding_try("%s -m pip install triton", python);
	}
	softgpu_set_always(folder, has_toolkit ? wheels.stand_ins : folder, softgpu_report_one);
	if (report_count == 0)
		finding(FINDING_OK, "software GPU: spillway run --softgpu sets no variable of a "
		                    "framework: all are set");
}
