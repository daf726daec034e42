/* SPDX-License-Identifier: MIT */
/*
 * File status: the type and identity of a file, as stat(2) reports them, by system call.
 *
 * glibc's own functions have no version that is older than 2.33, and older container profiles
 * refuse statx. No allocation, no lock; errno is set on failure, as by stat(2).
 */
#ifndef SPILLWAY_FILE_STATUS_H
#define SPILLWAY_FILE_STATUS_H

#include <stdint.h>
#include <sys/stat.h>

/* Reads a file's status. Each returns 0, or -1 and errno. */
int file_status(const char *path, struct stat *status);        /* symbolic links are followed */
int file_status_itself(const char *path, struct stat *status); /* they are not */
int file_status_of(int fd, struct stat *status);
/* Reads the status of a file in a directory; of a link, the link's own. */
int file_status_at(int directory, const char *name, struct stat *status);

/*
 * Returns how many seconds lie between the file's last change and now, in either direction. A clock
 * that is set back puts files into the future, where they would stay new for years.
 */
uint64_t file_status_age(const struct stat *status);

#endif
