/* SPDX-License-Identifier: MIT */
/* Programs without Spillway, as findings. */
#include "tools/doctor/seatless.h"

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/doctor/finding.h"
#include "tools/view/seatless.h"

static void doctor_seatless_find(const struct seatless_process *process, bool is_enforced)
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

void seatless_findings(void)
{
	struct seatless seatless = {0};

	seatless_look_twice(&seatless);
	for (int i = 0; i < seatless.count; i++)
		doctor_seatless_find(&seatless.process[i], config_machine()->enforces);
	if (!seatless.is_known)
		finding(FINDING_OK,
		        "without Spillway: not known: NVML does not list the programs on the "
		        "GPUs");
	else if (seatless.not_judged)
		finding(FINDING_OK,
		        "without Spillway: not known of %d processes on the GPUs: they have ended, "
		        "are other users', or live in another PID namespace; root of the node sees "
		        "them",
		        seatless.not_judged);
	else if (!seatless.count)
		finding(FINDING_OK, "without Spillway: no program on the GPUs");
	seatless_free(&seatless);
}
