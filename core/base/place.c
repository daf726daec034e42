/* SPDX-License-Identifier: MIT */
/* Places that the environment chooses, unless the machine does not leave it the choice. */
#include "core/base/place.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool bound;
static const char *state; /* set before bound is */

const char *place_variable(const char *name)
{
	const char *value;

	if (!place_is_bound())
		value = secure_getenv(name);
	else
		value = strcmp(name, "SPILLWAY_STATE_DIR") == 0 ? state : NULL;
	return value && *value ? value : NULL;
}

void place_bind(const char *directory)
{
	state = directory;
	atomic_store(&bound, true);
}

bool place_is_bound(void)
{
	return atomic_load(&bound);
}
