/* SPDX-License-Identifier: MIT */
/*
 * Which programs have no process slot, judged by the facts alone. Nothing here looks at the
 * machine.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/view/unmanaged.h"
#include "tools/view/tool.h"

enum slot_verdict unmanaged_check(const struct slots_known *known, uid_t owner, pid_t inside)
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

static bool unmanaged_check_is_same(const struct unmanaged_process *a,
                                    const struct unmanaged_process *b)
{
	return a->pid == b->pid && a->started == b->started && strcmp(a->uuid, b->uuid) == 0;
}

void unmanaged_settle(struct unmanaged *unmanaged, struct unmanaged_process *found, int count,
                      uint64_t now_ns)
{
	unmanaged->count = 0;
	for (int i = 0; i < count; i++) {
		found[i].seen_ns = now_ns;
		for (int k = 0; k < unmanaged->suspects; k++)
			if (unmanaged_check_is_same(&found[i], &unmanaged->suspect[k]))
				found[i].seen_ns = unmanaged->suspect[k].seen_ns;
		if (now_ns - found[i].seen_ns < UNMANAGED_APART_NS)
			continue;
		unmanaged->process =
		    grow(unmanaged->process, unmanaged->count, sizeof *unmanaged->process);
		unmanaged->process[unmanaged->count++] = found[i];
	}
	free(unmanaged->suspect);
	unmanaged->suspect = found;
	unmanaged->suspects = count;
}

void unmanaged_free(struct unmanaged *unmanaged)
{
	free(unmanaged->process);
	free(unmanaged->suspect);
	*unmanaged = (struct unmanaged){0};
}
