/* SPDX-License-Identifier: MIT */
/* Replacing a file as one step. */
#include "tools/formats/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/view/tool.h"

bool replace_begin(struct replace *replace, const char *path, mode_t mode)
{
	int descriptor;

	*replace = (struct replace){.path = path, .temporary = text("%s.XXXXXX", path)};
	descriptor = mkostemp(replace->temporary, O_CLOEXEC);
	if (descriptor >= 0 && fchmod(descriptor, mode) == 0)
		replace->out = fdopen(descriptor, "w");
	if (replace->out)
		return true;
	complain("%s: %s", path, strerror(errno));
	if (descriptor >= 0) {
		unlink(replace->temporary);
		close(descriptor);
	}
	free(replace->temporary);
	return false;
}

bool replace_end(struct replace *replace)
{
	bool written = fflush(replace->out) == 0 && !ferror(replace->out);

	written = fclose(replace->out) == 0 && written;
	written = written && rename(replace->temporary, replace->path) == 0;
	if (!written) {
		complain("%s: %s", replace->path, strerror(errno));
		unlink(replace->temporary);
	}
	free(replace->temporary);
	return written;
}
