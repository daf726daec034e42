/* SPDX-License-Identifier: MIT */
/* Names a job without a name. */
#include "tools/cli/job_name.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "tools/doctor/paths.h"
#include "tools/view/tool.h"

/* Returns the name of a program. For a Python program the script says more than the interpreter. */
static const char *program_name(char **program)
{
	const char *base = paths_base(program[0]);

	if (strncmp(base, "python", 6) != 0)
		return base;
	for (char **argument = program + 1; *argument; argument++) {
		const char *dot = strrchr(*argument, '.');

		if (dot && strcmp(dot, ".py") == 0)
			return paths_base(*argument);
	}
	return base;
}

/* Returns PROGRAM-PID, of letters that a job's name may have. */
static char *program_job(char **program)
{
	const char *base = program_name(program);
	const char *dot = strrchr(base, '.');
	int length = dot && strcmp(dot, ".py") == 0 ? (int)(dot - base) : (int)strlen(base);
	char *name = text("%.*s-%d", length > 40 ? 40 : length, base, (int)getpid());

	for (char *c = name; *c; c++)
		if (directory_check_name((char[]){'x', *c, '\0'}) != 0)
			*c = '-';
	if (*name == '.' || *name == '-')
		*name = '_';
	return name;
}

/*
 * Returns PREFIX-NAME where the variable with the name is set, else NULL. A long one is told apart
 * by its end.
 */
static char *named_by(const char *prefix, const char *variable)
{
	enum { LONGEST = 56 };
	const char *value = getenv(variable);
	size_t length = value ? strlen(value) : 0;
	char *name;

	if (length == 0)
		return NULL;
	name = text("%s-%s", prefix, length > LONGEST ? value + length - LONGEST : value);
	if (directory_check_name(name) != 0)
		fail("%s='%s': cannot be in a job's name; use --name", variable, value);
	return name;
}

char *job_name(char **program, bool *common)
{
	char *name = named_by("slurm", "SLURM_JOB_ID");

	if (!name && getenv("KUBERNETES_SERVICE_HOST"))
		name = named_by("pod", "HOSTNAME");
	*common = name;
	return name ? name : program_job(program);
}
