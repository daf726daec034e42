/* SPDX-License-Identifier: MIT */
/* Hints for programs that look before they allocate. */
#include "tools/doctor/hint.h"

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/view/tool.h"

int hint_looked_first(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++) {
		const struct statistics *total = &view->job_total[i];

		if (total->refusals || total->spills || total->demotions)
			return -1; /* it got past looking */
		if (total->reported_limit && total->limit_set != CONFIG_UNLIMITED &&
		    total->device_peak <= total->limit_set / 2)
			return i;
	}
	return -1;
}

bool hint_did_nothing(const struct segment_view *view)
{
	for (int i = 0; i < view->device_count; i++)
		if (view->job_total[i].launches || view->job_total[i].graph_launches)
			return false;
	return true;
}

char *hint_text(const struct segment_view *view, int gpu)
{
	char told[32], has[32];

	return text(
	    "gpu %d: it asked for the memory's size and was told %s of %s, its limit; if "
	    "it found that too little, --reported-memory limit+host tells it of the host's too",
	    gpu, units_format_size(view->job_total[gpu].limit_set, told, sizeof told),
	    units_format_size(view->device[gpu].memory, has, sizeof has));
}
