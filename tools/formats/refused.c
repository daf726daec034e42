/* SPDX-License-Identifier: MIT */
/* Words for refusals, and for the driver's own memory. */
#include "tools/formats/refused.h"

#include "core/base/units.h"
#include "core/ledger/refused.h"

int refused_device(const struct segment_view *view)
{
	uint64_t latest = 0;
	int found = -1;

	for (int i = 0; i < view->device_count; i++) {
		uint64_t at = view->job_total[i].refused_at;

		if (at <= latest)
			continue;
		latest = at;
		found = i;
	}
	return found;
}

const char *refused_latest(const struct statistics *statistics, char *buf, size_t size)
{
	const struct refused refused = {(enum refusal_reason)statistics->refused_reason,
	                                statistics->refused_bytes, statistics->refused_short,
	                                statistics->refused_limit};

	return refused_text(&refused, "", buf, size);
}

void refused_driver_s(FILE *out, uint64_t bytes)
{
	char size[32];

	if (bytes)
		fprintf(out, ", of which %s are the driver's own",
		        units_format_size(bytes, size, sizeof size));
}
