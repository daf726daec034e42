/*
 * Frameworks that would take all memory of a GPU at once.
 *
 * TensorFlow takes nearly all unless it is to grow (its guide "Use a GPU"), JAX 75 % unless it is
 * not to preallocate (its page "GPU memory allocation"): of the limit where there is one, and of
 * the GPU where there is none, so that nothing is left for others. Whoever names a fraction wants
 * to preallocate.
 */
#include "tools/cli/frameworks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/tool.h"

static const struct {
	const char *variable, *value;
	const char *otherwise[2]; /* variables by which the user says otherwise, too */
} frameworks[] = {
    {"TF_FORCE_GPU_ALLOW_GROWTH", "true", {NULL, NULL}},
    {"XLA_PYTHON_CLIENT_PREALLOCATE",
     "false",
     {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"}},
};

void frameworks_be_modest(void)
{
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		bool said = false;

		for (int k = 0; k < 2; k++)
			said = said ||
			       (frameworks[i].otherwise[k] && getenv(frameworks[i].otherwise[k]));
		if (!said && setenv(frameworks[i].variable, frameworks[i].value, 0) != 0)
			fail("setting %s: %s", frameworks[i].variable, strerror(errno));
	}
}
