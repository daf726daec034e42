/* The switch by which Spillway is left out. */
#include "shim/disabled.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "core/base/units.h"

/*
 * Returns whether nothing is to be hooked; in a set-uid process nothing is, too: its environment is
 * not to be trusted.
 */
bool shim_is_disabled(void)
{
	const char *value = secure_getenv("SPILLWAY_DISABLE");
	bool disabled = false;

	/* A value that is neither yes nor no is said when the configuration is read, at cuInit. */
	if (value)
		units_parse_bool(value, &disabled);
	return disabled || getauxval(AT_SECURE);
}
