/* SPDX-License-Identifier: MIT */
/*
 * A job as Slurm's controller knows it, which its user cannot forge.
 */
#ifndef SPILLWAY_SLURM_FACTS_H
#define SPILLWAY_SLURM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_facts {
	/* User, account, partition and place in an array, as [job] takes them; a line of an INI,
	 * with "labels = ", has 197 bytes at most. */
	char labels[188];
	unsigned gpus;       /* GPUs of this node that are the job's alone */
	unsigned shards;     /* and how many shards of one GPU of this node it has; 0: none */
	unsigned all_shards; /* shards that such a GPU is divided into, each alike */
};

/*
 * Asks the controller. Returns false, with a line in message, where it does not answer or has no
 * such job. Waits as Slurm's own commands do.
 */
bool facts_ask(uint32_t job, struct job_facts *facts, char *message, size_t size);

/*
 * Puts a line into the job's AdminComment, in place of the one with the same beginning. Slurm lets
 * no user change an ended job: nothing is done then. Returns likewise.
 */
bool facts_put_comment(uint32_t job, const char *beginning, const char *line, char *message,
                       size_t size);

#endif
