/* Words for whole turns, and what launchers tell of a job. Rules: pure. */
#include "core/sharing/member.h"

#include <stdlib.h>

const char *gang_state_name(uint32_t state)
{
	static const char *const names[] = {
	    [GANG_FREE] = "free", [GANG_WAITS] = "waits",   [GANG_TAKES] = "takes",
	    [GANG_HAS] = "has",   [GANG_LEAVES] = "leaves", [GANG_RESTS] = "rests",
	};

	return state < GANG_STATES ? names[state] : "?";
}

const char *gang_why_text(uint32_t why)
{
	static const char *const texts[] = {
	    [GANG_NOTHING] = "",
	    [GANG_FINE_BESIDE] = "a job beside it works by fine turns",
	    [GANG_HOST_FULL] = "the host cannot hold what all of them would put there",
	    [GANG_TOO_MANY] = "so many jobs would wait for longer than 120 s",
	    [GANG_WAITED] = "its turn did not come within 120 s",
	    [GANG_OTHER_NODES] = "it has ranks on other machines",
	    [GANG_UNMOVABLE] = "its memory cannot move",
	};

	return why < GANG_WHYS ? texts[why] : "?";
}

/* Returns the number in a variable of the environment, 0 where there is none. */
static unsigned long number_in(char *(*get)(const char *name), const char *name)
{
	const char *text = get(name);

	return text ? strtoul(text, NULL, 10) : 0;
}

const char *gang_other_nodes(char *(*get)(const char *name))
{
	/*
	 * How many ranks there are in all, and how many of them here; or machines, of which 1 is:
	 * by torchrun (two), Open MPI, MPICH and Intel MPI, MVAPICH2, Horovod, srun.
	 */
	static const char *const counts[][2] = {
	    {"WORLD_SIZE", "LOCAL_WORLD_SIZE"},
	    {"GROUP_WORLD_SIZE", NULL},
	    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	    {"PMI_SIZE", "MPI_LOCALNRANKS"},
	    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
	    {"HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"},
	    {"SLURM_STEP_NUM_NODES", NULL},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		unsigned long all = number_in(get, counts[i][0]);
		unsigned long here = counts[i][1] ? number_in(get, counts[i][1]) : 1;

		if (here && all > here)
			return counts[i][0];
	}
	return NULL;
}
