/* SPDX-License-Identifier: MIT */
/* Reading an INI file without waiting. */
#include "tools/view/ini_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/own_file.h"
#include "tools/view/tool.h"

const char *ini_selector(const char *section)
{
	if (strncmp(section, "gpu", 3) != 0)
		return NULL;
	return section + 3 + strspn(section + 3, " \t");
}

char *ini_section(const char *selector)
{
	return text("gpu%s%s", *selector ? " " : "", selector);
}

int ini_read(const char *path, ini_handler handler, void *cookie)
{
	int descriptor = own_file_open(AT_FDCWD, path, O_RDONLY, 0), line;
	FILE *file;

	if (descriptor < 0)
		return descriptor;
	file = fdopen(descriptor, "r");
	if (!file) {
		int error = -errno;

		close(descriptor);
		return error;
	}
	line = ini_parse_file(file, handler, cookie);
	fclose(file);
	return line;
}
