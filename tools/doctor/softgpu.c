/* SPDX-License-Identifier: MIT */
#include "tools/doctor/softgpu.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/finding.h"
#include "tools/view/tool.h"

#define BLANKS " \t\n"

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

/* Returns VALUE with the folder in place of "%s". */
static char *softgpu_fill(const char *value, const char *folder)
{
	const char *place = strstr(value, "%s");

	return place ? text("%.*s%s%s", (int)(place - value), value, folder, place + 2)
	             : text("%s", value);
}

/* Returns whether FLAGS names the flag that FLAG ("--name=value") sets. */
static bool softgpu_is_named(const char *flags, const char *flag)
{
	size_t length = strcspn(flag, "=");

	for (const char *next = flags + strspn(flags, BLANKS); *next;
	     next += strspn(next, BLANKS)) {
		size_t word = strcspn(next, BLANKS "=");

		if (word == length && strncmp(next, flag, length) == 0)
			return true;
		next += strcspn(next, BLANKS);
	}
	return false;
}

/* Returns XLA_FLAGS with the flags that it lacks, or NULL where it stays as it is. */
static char *softgpu_xla_flags(const char *folder)
{
	const char *others = getenv("XLA_FLAGS");
	char *flags = text("%s", others ? others : "");
	bool is_changed = false;

	for (size_t i = 0; i < sizeof xla_flags / sizeof *xla_flags; i++) {
		char *flag, *longer, first;

		/* Without a dash in front it is the name of a file with flags. */
		first = flags[strspn(flags, BLANKS)];
		if (first && first != '-')
			break;
		if (softgpu_is_named(flags, xla_flags[i]))
			continue;
		flag = softgpu_fill(xla_flags[i], folder);
		longer = text("%s%s%s", flags, *flags ? " " : "", flag);
		free(flag);
		free(flags);
		flags = longer;
		is_changed = true;
	}
	if (is_changed)
		return flags;
	free(flags);
	return NULL;
}

void softgpu_be_found(const char *folder, char *set, size_t size)
{
	size_t count = sizeof variables / sizeof *variables;
	size_t used = 0;

	*set = '\0';
	for (size_t i = 0; i <= count; i++) {
		const char *name = i < count ? variables[i].name : "XLA_FLAGS";
		char *value;

		if (i < count)
			value = getenv(name) ? NULL : softgpu_fill(variables[i].value, folder);
		else
			value = softgpu_xla_flags(folder);
		if (!value)
			continue;
		if (setenv(name, value, 1) != 0)
			fail("setting %s: %s", name, strerror(errno));
		if (used < size)
			used += (size_t)snprintf(set + used, size - used, "%s%s=%s",
			                         used ? ", " : "", name, value);
		free(value);
	}
}

void softgpu_report(const char *folder)
{
	char set[4096];

	softgpu_be_found(folder, set, sizeof set);
	if (*set)
		finding(true, "software GPU: spillway run --softgpu sets %s", set);
	else
		finding(true, "software GPU: spillway run --softgpu sets no variable of a "
		              "framework: all are set");
}
