/* SPDX-License-Identifier: MIT */
/*
 * ring: wakes the helpers of all jobs in the state directory, so that a changed configuration is
 * read at once. A helper that no bell wakes looks at its files once a second, and a test that is
 * not about that would wait.
 */
#include "core/state/segment.h"

static int ring_job(void *cookie, const char *job)
{
	(void)cookie;
	segment_ring(job);
	return 0;
}

int main(void)
{
	return segment_list(ring_job, NULL) < 0;
}
