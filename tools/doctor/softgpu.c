/* SPDX-License-Identifier: MIT */
#include "tools/doctor/softgpu.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/finding.h"
#include "tools/view/tool.h"
#include "tools/wheels/wheels.h"

/*
 * "%s" is the software GPU's folder. XLA emits products itself, because the software GPU has no
 * cuBLAS. Autotuning, of PyTorch too, would choose kernels by their time, so that two runs might
 * differ.
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

/* Returns whether a list names what ITEM sets. */
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

/* Finds what the program's Python would import, and sets what such wheels want. */
static void softgpu_set_for_wheels(const char *folder, char *const *program, softgpu_say *say)
{
	const char *others = getenv("LD_LIBRARY_PATH"), *toolkit = folder;
	char message[PATH_MAX + 256];
	struct wheels wheels = {0};

	if (wheels_find(&wheels, program, folder)) {
		if (!wheels_make(&wheels, folder, message, sizeof message)) {
			complain("stand-ins for libraries of NVIDIA's cannot be made: %s", message);
		} else {
			/* Last, so that a library that the user has wins. */
			softgpu_set(say, "LD_LIBRARY_PATH",
			            text("%s%s%s", others ? others : "",
			                 others && *others ? ":" : "", wheels.stand_ins));
			if (*wheels.libdevice)
				toolkit = wheels.stand_ins;
		}
	}
	if (*wheels.tensorflow && !getenv("TRITON_OVERRIDE_ARCH"))
		softgpu_set(say, "TRITON_OVERRIDE_ARCH", text("sm80"));
	if (*wheels.tensorflow)
		softgpu_set(say, attributes.name, softgpu_list(&attributes, folder));
	softgpu_set(say, xla.name, softgpu_list(&xla, toolkit));
}

void softgpu_be_found(const char *folder, char *const *program, softgpu_say *say)
{
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		if (!getenv(variables[i].name))
			softgpu_set(say, variables[i].name,
			            softgpu_fill(variables[i].value, folder));
	softgpu_set_for_wheels(folder, program, say);
}

static int report_count;

static void softgpu_report_one(const char *name, const char *value)
{
	finding(FINDING_OK, "software GPU: spillway run --softgpu sets %s=%s", name, value);
	report_count++;
}

void softgpu_report(const char *folder, const char *program)
{
	char *words[] = {text("%s", program ? program : "python3"), NULL};

	report_count = 0;
	softgpu_be_found(folder, words, softgpu_report_one);
	if (report_count == 0)
		finding(FINDING_OK, "software GPU: spillway run --softgpu sets no variable of a "
		                    "framework: all are set");
	free(words[0]);
}
