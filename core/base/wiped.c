/* SPDX-License-Identifier: MIT */
/* Pages that are wiped in forked children. Rules: runs inside the user's process. */
#include "core/base/wiped.h"

#include <stddef.h>
#include <sys/mman.h>

struct wiped wiped;

bool wiped_start(void)
{
	return madvise(&wiped, sizeof(wiped), MADV_WIPEONFORK) == 0;
}

void wiped_clear(void)
{
	atomic_store(&wiped.is_active, false);
	atomic_store(&wiped.statistics, NULL);
	for (int i = 0; i < WIPED_GROUPS; i++)
		atomic_store(&wiped.actions[i], NULL);
}
