/* SPDX-License-Identifier: MIT */
/* Keepers. Rules: pure; found by numbers that others choose, so there are only so many. */
#include "core/sharing/keeper.h"

#include <stddef.h>
#include <string.h>

static struct keeper *find(struct keepers *keepers, uint64_t id)
{
	for (int i = 1; i < KEEPERS; i++)
		if (keepers->of[i].seen_ns && keepers->of[i].id == id)
			return &keepers->of[i];
	return NULL;
}

/* Enters a keeper in place of the one that was not seen for longest. NULL: all are there. */
static struct keeper *enter(struct keepers *keepers, uint64_t id, uint64_t now)
{
	struct keeper *oldest = &keepers->of[1];

	for (int i = 2; i < KEEPERS; i++)
		if (keepers->of[i].seen_ns < oldest->seen_ns)
			oldest = &keepers->of[i];
	if (oldest->seen_ns == now)
		return NULL;
	*oldest = (struct keeper){.id = id, .out_ns = keepers->of[0].out_ns};
	return oldest;
}

struct keeper *keeper_of_job(struct keepers *keepers, uint64_t job)
{
	struct keeper *keeper = find(keepers, job);

	return keeper ? keeper : &keepers->of[0];
}

static uint64_t id_of(const struct gang_member *m, const struct gang_member *own)
{
	return m->job == own->job ? m->process : m->job;
}

struct keeper *keeper_of(struct keepers *keepers, const struct gang_member *m,
                         const struct gang_member *own)
{
	return keeper_of_job(keepers, id_of(m, own));
}

/* Returns whether nothing that it says would keep us. Of our own job nobody knows that. */
static bool lets_go(const struct gang_member *m, const struct gang_member *own)
{
	return m->job != own->job && (!m->is_whole || m->why != GANG_NOTHING ||
	                              m->state == GANG_WAITS || m->state == GANG_RESTS);
}

void keepers_see(struct keepers *keepers, const struct gang_member *own, uint64_t now,
                 const struct gang_member *others, int count, bool may_come)
{
	for (int i = 0; i < count && i < GANG_MEMBERS; i++) {
		uint64_t id = id_of(&others[i], own);
		struct keeper *keeper;

		if (!member_lives(&others[i], own, now))
			continue;
		keeper = find(keepers, id);
		if (!keeper && may_come)
			keeper = enter(keepers, id, now);
		if (!keeper)
			keeper = &keepers->of[0];
		keeper->lets_go =
		    (keeper->lets_go || keeper->seen_ns != now) && lets_go(&others[i], own);
		keeper->seen_ns = now;
	}
}

void keeper_leave_out(struct keepers *keepers, struct keeper *keeper, uint64_t now)
{
	keeper->out_ns = keepers->out_ns = now;
	keepers->left_out++;
}

void keepers_begin(struct keepers *keepers, uint64_t now)
{
	for (int i = 0; i < KEEPERS; i++) {
		struct keeper *keeper = &keepers->of[i];

		keeper->moved_ns = 0;
		memset(keeper->kept_ns, 0, sizeof keeper->kept_ns);
		if (i == 0 || keeper->lets_go || now > keeper->out_ns + GANG_AGAIN_NS)
			keeper->out_ns = 0;
	}
	if (now > keepers->out_ns + GANG_AGAIN_NS)
		keepers->left_out = 0;
}
