/* Places that the environment chooses, unless the machine does not leave it the choice. */
#include "core/base/place.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic bool bound;

const char *place_variable(const char *name)
{
	const char *value = place_is_bound() ? NULL : secure_getenv(name);

	return value && *value ? value : NULL;
}

void place_bind(void)
{
	atomic_store(&bound, true);
}

bool place_is_bound(void)
{
	return atomic_load(&bound);
}
