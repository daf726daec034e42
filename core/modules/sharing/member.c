/* SPDX-License-Identifier: MIT */
/*
 * Members of a gang: the processes of jobs that take exclusive turns (gang.h). A member is made of
 * a peer record and written into one. A record is trusted if its process may share a turn file with
 * this one. Rules: pure.
 */
#include "core/modules/sharing/member.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/config/config.h"

bool member_lives(const struct gang_member *m, const struct gang_member *own, uint64_t now)
{
	return m->process != own->process && m->device[0] && m->state < GANG_STATES &&
	       m->beat_ns + GANG_SILENT_NS > now && m->beat_ns <= now + GANG_SILENT_NS;
}

struct gang_member member_of(const struct peers_other *other, bool is_trusted, uint64_t now_ns)
{
	const struct peer_record *record = &other->record;
	struct gang_member m = {.process = member_number(other->owner, record->token),
	                        .job = member_number(other->owner, record->job)};

	if (record->turn != TURN_EXCLUSIVE || !is_trusted) {
		m.device[0] = member_device(record);
		m.beat_ns = other->is_silent ? 0 : now_ns;
		m.wants = record->working != PEER_IDLE;
		return m;
	}
	if (!record->turn_process)
		return m; /* it uses no device yet */
	m.process = member_number(other->owner, record->turn_process);
	memcpy(m.device, record->gang, sizeof m.device);
	m.beat_ns = record->turn_beat_ns;
	m.state = record->turn_state;
	m.why = record->turn_why;
	m.is_exclusive = true;
	m.wants = record->turn_wants;
	m.ticket_ns = record->turn_ticket_ns;
	m.since_ns = record->turn_since_ns;
	m.length_ns = record->turn_length_ns;
	m.exchange_ns = record->turn_exchange_ns;
	m.bytes = record->turn_bytes;
	m.on_host = record->turn_on_host;
	return m;
}

void member_tell(const struct gang_member *own, uint64_t number, struct peer_record *record)
{
	memcpy(record->gang, own->device, sizeof record->gang);
	record->turn_process = number;
	record->turn_beat_ns = own->beat_ns;
	record->turn_state = own->state;
	record->turn_why = (uint16_t)own->why;
	record->turn_wants = own->wants;
	record->turn_ticket_ns = own->ticket_ns;
	record->turn_since_ns = own->since_ns;
	record->turn_length_ns = own->length_ns;
	record->turn_exchange_ns = own->exchange_ns;
	record->turn_bytes = own->bytes;
	record->turn_on_host = own->on_host;
}

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
	    [GANG_FINE_BESIDE] =
	        "a job beside it works by fine turns, or shares no turn file with it",
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
	 * Variables with the number of all ranks, and of the ranks on this machine. NULL: the first
	 * has the number of machines. A job with ranks elsewhere takes no exclusive turns
	 * (GANG_OTHER_NODES). For example, of 16 ranks with 8 here the answer is "WORLD_SIZE". By
	 * torchrun (two), Open MPI, MPICH and Intel MPI, MVAPICH2, Horovod, srun.
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
