/* The switch by which Spillway is left out. */
#include "shim/disabled.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "core/base/units.h"
#include "core/config/config.h"

/*
 * Returns whether nothing is to be hooked; in a set-uid process nothing is, too: its environment is
 * not to be trusted. Where the machine's file is enforced both take part, without an environment:
 * anybody who is in two groups can make a program set-gid.
 */
bool shim_is_disabled(void)
{
	const char *value = secure_getenv("SPILLWAY_DISABLE");
	bool disabled = false;

	if (config_machine()->enforces)
		return false;
	/* A value that is neither yes nor no is said when the configuration is read, at cuInit. */
	if (value)
		units_parse_bool(value, &disabled);
	return disabled || getauxval(AT_SECURE);
}
