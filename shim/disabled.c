/* The switch by which Spillway is left out. */
#include "shim/disabled.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "core/base/units.h"

/* In a set-uid process too nothing is hooked: its environment is not to be trusted. */
bool shim_is_disabled(void)
{
	const char *value = secure_getenv("SPILLWAY_DISABLE");
	bool disabled = false;

	/* What is neither yes nor no is said when the configuration is read, at cuInit. */
	if (value)
		units_parse_bool(value, &disabled);
	return disabled || getauxval(AT_SECURE);
}
