/* SPDX-License-Identifier: MIT */
/* The configuration as commands read it. */
#include "tools/view/configuration.h"

#include <stdlib.h>
#include <string.h>

#include "tools/view/tool.h"

const char *configuration_file(void)
{
	const char *file = getenv("SPILLWAY_CONFIG");

	return file && *file ? file : NULL;
}

void configuration_warn(const struct config *config, void (*say)(const char *line))
{
	char *lines = text("%s", config_job(config)->warnings), *rest = lines, *line;

	while ((line = strsep(&rest, "\n"))) {
		if (*line && say)
			say(line);
		else if (*line)
			complain("%s", line);
	}
	free(lines);
}
