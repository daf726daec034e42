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

enum { DESCRIPTOR_ASIDE = 200 };

/*
 * Moves a descriptor that stays open to DESCRIPTOR_ASIDE or above. A program gets the lowest that
 * is free, and its first file is number 3 as without us. Where the limit of descriptors is lower it
 * is as above.
 */
static inline int descriptor_aside(int fd)
{
	int aside = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_ASIDE);

	if (aside < 0)
		return descriptor_above_stdio(fd);
	close(fd);
	return aside;
}

#endif
