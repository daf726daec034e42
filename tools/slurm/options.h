/* SPDX-License-Identifier: MIT */
/*
 * The options that srun, sbatch and salloc take, and the arguments of the plugin's line in
 * plugstack.conf.
 */
#ifndef SPILLWAY_SLURM_OPTIONS_H
#define SPILLWAY_SLURM_OPTIONS_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "core/config/config.h"

/* Each option of a job: X(name, key of [gpu]). */
#define JOB_OPTIONS(X)               \
	X("gpu-mem", memory)         \
	X("gpu-mem-max", memory_max) \
	X("gpu-share", share)        \
	X("gpu-priority", priority)

enum job_option {
#define X(name, key) OPTION_##key,
	JOB_OPTIONS(X)
#undef X
	    JOB_OPTION_COUNT
};

/* How the plugin is set up, by words NAME=VALUE in plugstack.conf. */
struct arguments {
	const char *directory; /* where jobs' files are; %n is the node's name */
	const char *library;   /* where the shim is installed */
	const char
	    *standard[JOB_OPTION_COUNT]; /* default-mem=... of jobs that have a GPU; NULL: none */
	bool of_shards;                  /* shards limit the GPU that they are a part of */
	bool comments;                   /* AdminComment has the job's use */
};

/* Returns an option's name, and the key of [gpu] that it sets. */
const char *option_name(enum job_option option);
enum config_key option_key(enum job_option option);

/*
 * Registers the options; a bad value is refused where the job is submitted, in one line.
 * Returns a SPANK error.
 */
spank_err_t options_register(spank_t spank);

/*
 * Finds the value that a job's user has given an option, NULL if none. Returns false, with a line
 * in message, where it is no value; a user without our plugin can send any.
 */
bool options_find(spank_t spank, enum job_option option, const char **value, char *message,
                  size_t size);

/*
 * Reads the arguments, which live as long as argv. Returns false, with a line in message, at a bad
 * one; the words before it are read.
 */
bool plugin_words_read(int argc, char **argv, struct arguments *arguments, char *message,
                       size_t size);

#endif
