/* SPDX-License-Identifier: MIT */
/*
 * A task's own view of two files in /etc, which no environment and no program of its user changes.
 */
#ifndef SPILLWAY_SLURM_MOUNTS_H
#define SPILLWAY_SLURM_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/slurm/files.h"

/*
 * Puts the calling process into a mount namespace of its own, in which the job's files lie over the
 * machine's. Its mounts are not seen outside; later mounts outside are seen inside. Root's. Returns
 * false with a line in message.
 */
bool mounts_make(const struct job_files *files, char *message, size_t size);

#endif
