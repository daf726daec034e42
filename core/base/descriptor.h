/* SPDX-License-Identifier: MIT */
/* Descriptors of our own in the user's process. */
#ifndef SPILLWAY_DESCRIPTOR_H
#define SPILLWAY_DESCRIPTOR_H

#include <fcntl.h>
#include <unistd.h>

/*
 * Moves a descriptor above 2: a program that runs without 0 to 2 would take ours for its input or
 * output. Takes over fd, which may be -1 with errno. Returns it or another for it, CLOEXEC, or -1
 * and errno.
 */
static inline int descriptor_above_stdio(int fd)
{
	int above = fd;

	if (fd >= 0 && fd <= STDERR_FILENO) {
		above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(fd);
	}
	return above;
}

#endif
