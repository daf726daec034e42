/* SPDX-License-Identifier: MIT */
/* The reason why memory of a job is on the host. */
#include "tools/formats/on_host.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "core/ledger/codes.h"
#include "tools/formats/report_moves.h"
#include "tools/view/jobs.h"
#include "tools/view/sharing.h"

#define PIECE (UINT64_C(2) << 20) /* less room is no room for memory that moves */

/* Reasons of the past, where there is room within the limit now. */
static const char *const on_host_since[] = {
    [SPILL_EVICTED] = "it was allocated while the job was evicted",
    [SPILL_LIMIT] = "the limit had no room for it",
    [SPILL_DEVICE_FULL] = "the GPU had no room for it",
    [SPILL_HOST_LIMIT] = "the limit had no room for it",
    [SPILL_YIELDED] = "other jobs have claimed the GPU",
};

static void on_host_add(char buf[ON_HOST_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a part, behind a semicolon where it is not the first. */
static void on_host_add(char buf[ON_HOST_TEXT], const char *format, ...)
{
	size_t length = strlen(buf);
	va_list arguments;

	if (length)
		length += (size_t)snprintf(buf + length, ON_HOST_TEXT - length, "; ");
	if (length >= ON_HOST_TEXT)
		return;
	va_start(arguments, format);
	vsnprintf(buf + length, ON_HOST_TEXT - length, format, arguments);
	va_end(arguments);
}

/* Says what may still change by itself. */
static void on_host_add_moves(char buf[ON_HOST_TEXT], const struct statistics *total,
                              const struct sharing_seen *seen)
{
	if (total->spill_reason < sizeof on_host_since / sizeof *on_host_since &&
	    on_host_since[total->spill_reason])
		on_host_add(buf, "%s", on_host_since[total->spill_reason]);
	if (total->move_pending != MOVE_NONE)
		on_host_add(buf, "its move to the GPU waits: %s", report_pending(total));
	if (seen->waits)
		on_host_add(buf, "%s", claim_wait_text(seen->waits));
}

const char *on_host_text(const struct segment_view *view, int gpu, char buf[ON_HOST_TEXT])
{
	const struct statistics *total = &view->job_total[gpu];
	uint64_t limit = total->limit_set;
	struct sharing_seen seen;
	char size[32];
	bool is_all;

	if (!view->charged[gpu][SEGMENT_ON_HOST] || !jobs_live_process(view))
		return NULL;
	sharing_see(view, gpu, &seen);
	is_all = seen.lent >= view->charged[gpu][SEGMENT_ON_HOST];
	*buf = '\0';
	if (total->evicted)
		on_host_add(buf, "the job is evicted: 'spillway resume %s' brings it back",
		            view->job);
	else if (limit != CONFIG_UNLIMITED && view->charged[gpu][SEGMENT_ON_DEVICE] + PIECE > limit)
		on_host_add(buf, "its limit of %s is used up",
		            units_format_size(limit, size, sizeof size));
	else if (seen.lent)
		on_host_add(buf, "%s%slent to other jobs: no data is lost, and %s",
		            is_all ? "" : units_format_size(seen.lent, size, sizeof size),
		            is_all ? "" : " ",
		            seen.is_idle ? "its next call brings it back"
		                         : "it comes back when there is room");
	if (!*buf)
		on_host_add_moves(buf, total, &seen);
	return buf;
}
