/* SPDX-License-Identifier: MIT */
/* Programs without Spillway, as findings. */
#include "tools/doctor/unmanaged.h"

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/doctor/finding.h"
#include "tools/view/unmanaged.h"

static void doctor_unmanaged_find(const struct unmanaged_process *process, bool is_enforced)
{
	char size[32];

	finding(is_enforced ? FINDING_NO : FINDING_OK,
	        "without Spillway: process %d of %s (%s) holds %s of %s: no limit holds for it",
	        (int)process->pid, process->user, process->command,
	        process->bytes == UINT64_MAX ? "memory"
	                                     : units_format_size(process->bytes, size, sizeof size),
	        process->uuid);
	if (is_enforced)
		finding_try(
		    "kill %d; 'OUT OF REACH' in spillway-limits(7) lists how a program gets "
		    "there",
		    (int)process->pid);
}

void unmanaged_findings(void)
{
	struct unmanaged unmanaged = {0};

	unmanaged_look_twice(&unmanaged);
	for (int i = 0; i < unmanaged.count; i++)
		doctor_unmanaged_find(&unmanaged.process[i], config_machine()->enforces);
	if (!unmanaged.is_known)
		finding(FINDING_OK,
		        "without Spillway: not known: NVML does not list the programs on the "
		        "GPUs");
	else if (unmanaged.not_judged)
		finding(FINDING_OK,
		        "without Spillway: not known of %d processes on the GPUs: they have ended, "
		        "are other users', or live in another PID namespace; root of the node sees "
		        "them",
		        unmanaged.not_judged);
	else if (!unmanaged.count)
		finding(FINDING_OK, "without Spillway: no program on the GPUs");
	unmanaged_free(&unmanaged);
}
