/* SPDX-License-Identifier: MIT */
/* A GPU that is named and is not there. */
#include "tools/view/absent_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tools/view/selectors.h"
#include "tools/view/tool.h"

/* Processes of one job may see one GPU each, and begin one after the other. */
#define SETTLED_NS 5000000000ull

bool view_is_of_run(const struct segment_view *view, const char *run)
{
	return !*run || strcmp(view->run, run) == 0;
}

/*
 * Returns whether nothing more is to be found out: the GPU is there, or it was said that it is not.
 */
static bool absent_gpu_do_look(struct absent_gpu *absent, uint64_t patience_ns)
{
	struct segment_view *view = allocate(sizeof *view);
	struct config_device device[SEGMENT_DEVICES];
	bool found =
	    segment_read(absent->job, view, NULL, 0) == 0 && view_is_of_run(view, absent->run);
	int count = found ? selectors_devices(view, device) : 0;
	char *known;

	segment_view_free(view);
	if (count != absent->devices)
		absent->settled = clock_now();
	absent->devices = count;
	if (absent->is_said || selectors_name_any(absent->selector, device, count))
		return true;
	if (count == 0 || clock_now() - absent->settled < patience_ns)
		return false;
	known = selectors_list(device, count);
	complain("--limit-gpu '%s': job '%s' has no such GPU, nothing is limited by it; it has %s",
	         absent->selector, absent->job, known);
	free(known);
	absent->is_said = true;
	return true;
}

bool absent_gpu_look(struct absent_gpu *absent)
{
	return absent_gpu_do_look(absent, SETTLED_NS);
}

void absent_gpu_say(struct absent_gpu *absent)
{
	absent_gpu_do_look(absent, 0);
}
