/* SPDX-License-Identifier: MIT */
/*
 * Which programs have no process slot, judged by the facts alone. Nothing here looks at the
 * machine.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/view/seatless.h"
#include "tools/view/tool.h"

enum slot_verdict seatless_judge(const struct slots_known *known, uid_t owner, pid_t inside)
{
	if (!inside)
		return SLOT_NOT_KNOWN;
	for (int i = 0; i < known->count; i++)
		if (known->slot[i].owner == owner && known->slot[i].pid == inside)
			return SLOT_HELD;
	for (int i = 0; i < known->unread_count; i++)
		if (known->unread[i] == owner)
			return SLOT_NOT_KNOWN;
	return owner == known->own || known->reaches_all ? SLOT_MISSING : SLOT_NOT_KNOWN;
}

static bool seatless_judge_is_same(const struct seatless_process *a,
                                   const struct seatless_process *b)
{
	return a->pid == b->pid && a->started == b->started && strcmp(a->uuid, b->uuid) == 0;
}

void seatless_settle(struct seatless *seatless, struct seatless_process *found, int count,
                     uint64_t now_ns)
{
	seatless->count = 0;
	for (int i = 0; i < count; i++) {
		found[i].seen_ns = now_ns;
		for (int k = 0; k < seatless->suspects; k++)
			if (seatless_judge_is_same(&found[i], &seatless->suspect[k]))
				found[i].seen_ns = seatless->suspect[k].seen_ns;
		if (now_ns - found[i].seen_ns < SEATLESS_APART_NS)
			continue;
		seatless->process =
		    grow(seatless->process, seatless->count, sizeof *seatless->process);
		seatless->process[seatless->count++] = found[i];
	}
	free(seatless->suspect);
	seatless->suspect = found;
	seatless->suspects = count;
}

void seatless_free(struct seatless *seatless)
{
	free(seatless->process);
	free(seatless->suspect);
	*seatless = (struct seatless){0};
}
