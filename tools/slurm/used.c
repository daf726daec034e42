/* SPDX-License-Identifier: MIT */
/*
 * Figures of a job. They lie in a directory of its user, who may have put any file there. So the
 * reader has that user's rights, and its output is bounded and printable. The user may stop the
 * reader, too; so it is killed when its time is over, or the node would wait for ever.
 */
#include "tools/slurm/used.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/segment.h"

enum { NAME_MAX_SIZE = 32 };
#define PATIENCE_NS 5000000000ull

/* Becomes the user for good. */
static bool slurm_used_become(uid_t user)
{
	return setgroups(0, NULL) == 0 && setgid((gid_t)65534) == 0 && setuid(user) == 0;
}

static void write_figures(const char *job, int to)
{
	struct segment_view *view = calloc(1, sizeof *view);
	uint64_t peak = 0, spilled = 0, busy = 0;
	const uint64_t mib = 1 << 20;
	char text[128], message[256];
	int length;

	if (!view || segment_read(job, view, message, sizeof message) != 0)
		return;
	for (int i = 0; i < view->device_count; i++) {
		peak += view->job_total[i].device_peak;
		spilled += view->job_total[i].spilled_bytes;
		busy += view->job_total[i].busy_ns;
	}
	length = snprintf(text, sizeof text, "peak=%" PRIu64 "MiB spilled=%" PRIu64 "MiB",
	                  (peak + mib - 1) / mib, (spilled + mib - 1) / mib);
	if (busy) /* it is measured where a share is kept */
		length += snprintf(text + length, sizeof text - (size_t)length, " gpu-seconds=%.1f",
		                   (double)busy / 1e9);
	if (write(to, text, (size_t)length) != length)
		_exit(1);
}

/* Waits until there is something to read, or the end of it. Returns whether that is in time. */
static bool comes(int from, uint64_t end)
{
	struct pollfd ready = {.fd = from, .events = POLLIN};

	for (uint64_t now = clock_now(); now < end; now = clock_now()) {
		int found = poll(&ready, 1, (int)((end - now) / 1000000) + 1);

		if (found > 0)
			return true;
		if (found < 0 && errno != EINTR)
			return false;
	}
	return false;
}

/* Reads the line that the child writes; an unprintable character ends it. */
static void read_figures(int from, char *text, size_t size)
{
	const uint64_t end = clock_now() + PATIENCE_NS;
	size_t used = 0;
	ssize_t length;

	while (used + 1 < size && comes(from, end) &&
	       (length = read(from, text + used, size - 1 - used)) > 0)
		used += (size_t)length;
	text[used] = '\0';
	for (char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("=.- ", *c))
			*c = '\0';
}

bool used_read(const struct job_files *files, uint32_t job, uid_t user, struct used *used)
{
	const char *node = getenv("SLURMD_NODENAME");
	char name[NAME_MAX_SIZE];
	int ends[2];
	pid_t child;

	*used = (struct used){.figures = ""};
	snprintf(used->node, sizeof used->node, "spillway node=%s ", node ? node : "?");
	snprintf(name, sizeof name, "slurm-%" PRIu32, job);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	child = fork();
	if (child == 0) {
		directory_use(files->state);
		if (slurm_used_become(user))
			write_figures(name, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	if (child > 0)
		read_figures(ends[0], used->figures, sizeof used->figures);
	close(ends[0]);
	if (child > 0)
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return *used->figures;
}
