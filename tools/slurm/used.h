/* SPDX-License-Identifier: MIT */
/* A job's use of this node's GPUs, in words for AdminComment and the log. */
#ifndef SPILLWAY_SLURM_USED_H
#define SPILLWAY_SLURM_USED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/slurm/files.h"

struct used {
	char node[80];    /* "spillway node=N ", with which the line of each node begins */
	char figures[96]; /* "peak=6MiB spilled=12MiB gpu-seconds=3.2" */
};

/*
 * Reads the job's use of this node until now, from its state, with its user's rights alone, by a
 * child that has seconds for it. Returns false where there is nothing: no task has used a GPU.
 */
bool used_read(const struct job_files *files, uint32_t job, uid_t user, struct used *used);

#endif
