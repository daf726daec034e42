/* SPDX-License-Identifier: MIT */
/*
 * Frameworks that would take all memory of a GPU at once.
 *
 * TensorFlow takes nearly all unless it is to grow (its guide "Use a GPU"), JAX 75 % unless it is
 * not to preallocate (its page "GPU memory allocation"): of the limit where there is one, and of
 * the GPU where there is none, so that no memory is left for other jobs. A user that names a
 * fraction wants to preallocate. vLLM takes 90 % by an option of its own (its page "Engine
 * Arguments").
 */
#include "tools/doctor/frameworks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/doctor/finding.h"
#include "tools/view/tool.h"

static const struct {
	const char *name, *variable, *value;
	const char *otherwise[2]; /* variables by which the user says otherwise, too */
} frameworks[] = {
    {"TensorFlow", "TF_FORCE_GPU_ALLOW_GROWTH", "true", {NULL, NULL}},
    {"JAX",
     "XLA_PYTHON_CLIENT_PREALLOCATE",
     "false",
     {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"}},
};

/* Returns the variable by which the user says otherwise of a framework, or NULL. */
static const char *said_otherwise(size_t framework)
{
	for (int i = 0; i < 2; i++) {
		const char *variable = frameworks[framework].otherwise[i];

		if (variable && getenv(variable))
			return variable;
	}
	return NULL;
}

void frameworks_be_modest(void)
{
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		if (!said_otherwise(i) &&
		    setenv(frameworks[i].variable, frameworks[i].value, 0) != 0)
			fail("setting %s: %s", frameworks[i].variable, strerror(errno));
	}
}

/* Returns whether a variable has the framework do as we would. JAX takes "0" for "false". */
static bool is_modest(const char *value, const char *modest)
{
	return strcasecmp(value, modest) == 0 ||
	       (strcmp(value, "0") == 0 && strcmp(modest, "false") == 0);
}

void frameworks_report(void)
{
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		const char *value = getenv(frameworks[i].variable), *variable = said_otherwise(i);

		if (!variable && value && !is_modest(value, frameworks[i].value))
			variable = frameworks[i].variable;
		if (!variable)
			continue;
		finding(FINDING_NOTE,
		        "%s = %s: %s takes its part of the limit at once, used or not, and is "
		        "refused memory beyond that",
		        variable, getenv(variable), frameworks[i].name);
		finding_try("unset %s", variable);
	}
	finding(FINDING_OK,
	        "frameworks: by spillway run TensorFlow and JAX take memory as they need it, "
	        "of a total that is the GPU's own (reported_memory = auto); "
	        "started otherwise most of the limit at once; vLLM takes 90 %% of it, less "
	        "by --gpu-memory-utilization");
}
