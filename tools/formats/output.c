/* SPDX-License-Identifier: MIT */
/* Output to where an option says. */
#include "tools/formats/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "tools/view/node.h"
#include "tools/view/tool.h"

/* A pipe's reader may be started beside us. */
#define READER_NS 10000000000ull
#define LOOK_NS   10000000ull

bool output_find(const char *path, struct target *target)
{
	char user[NODE_USER_MAX];
	int error;

	if (strcmp(path, "-") == 0) {
		*target = (struct target){.kind = TARGET_DESCRIPTOR, .descriptor = STDOUT_FILENO};
		return true;
	}
	error = target_find(path, target);
	if (error && target->is_strangers_link)
		complain("%s: a link of user %s, in a directory that all users may write to, is "
		         "not followed",
		         path, node_user(target->owner, user, sizeof user));
	else if (error)
		complain("%s: %s", path, strerror(-error));
	return error == 0;
}

FILE *output_read(const struct target *target)
{
	int descriptor =
	    open(target->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	FILE *in = descriptor < 0 ? NULL : fdopen(descriptor, "r");

	if (!in)
		complain("%s: %s", target->path, strerror(errno));
	if (!in && descriptor >= 0)
		close(descriptor);
	return in;
}

static int open_stream(const struct target *target)
{
	struct deadline deadline = DEADLINE_IN(READER_NS);
	int descriptor;

	do
		descriptor = target_open(target);
	while (descriptor == -ENXIO && deadline_nap(&deadline, LOOK_NS));
	/* it was opened for this: a slow reader is waited for */
	if (descriptor >= 0 && fcntl(descriptor, F_SETFL, 0) != 0) {
		int error = -errno;

		close(descriptor);
		return error;
	}
	return descriptor;
}

static const char *reason(int error)
{
	return error == ENXIO ? "a pipe or socket without a reader" : strerror(error);
}

/* Returns a stream that writes into it, or NULL and errno. */
static FILE *open_target(const struct target *target)
{
	bool ours = target->kind == TARGET_DESCRIPTOR;
	int descriptor;
	FILE *out;

	if (ours && target->descriptor == STDOUT_FILENO)
		return stdout;
	descriptor = ours ? fcntl(target->descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
	                  : open_stream(target);
	if (ours && descriptor < 0)
		return NULL;
	if (descriptor < 0) {
		errno = -descriptor;
		return NULL;
	}
	out = fdopen(descriptor, "w");
	if (!out)
		close(descriptor);
	return out;
}

bool output_begin(struct output *output, const char *path, mode_t mode)
{
	*output = (struct output){.path = path};
	if (!output_find(path, &output->target))
		return false;
	output->is_replaced =
	    output->target.kind == TARGET_NEW || output->target.kind == TARGET_FILE;
	if (output->is_replaced) {
		if (!replace_begin(&output->replace, output->target.path, mode))
			return false;
		output->out = output->replace.out;
		return true;
	}
	output->out = open_target(&output->target);
	if (!output->out)
		complain("%s: %s", path, reason(errno));
	return output->out;
}

bool output_end(struct output *output)
{
	bool written;

	if (output->is_replaced)
		return replace_end(&output->replace);
	if (output->out == stdout) {
		output_flush();
		return true;
	}
	written = fflush(output->out) == 0 && !ferror(output->out);
	written = fclose(output->out) == 0 && written;
	if (!written)
		complain("%s: %s", output->path, strerror(errno));
	return written;
}
