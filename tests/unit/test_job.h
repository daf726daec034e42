/* SPDX-License-Identifier: MIT */
/* A job for tests that charge a quota: without the job's books any limit is 0. */
#ifndef SPILLWAY_TEST_JOB_H
#define SPILLWAY_TEST_JOB_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/state/segment.h"

/*
 * Returns a segment in which nothing is charged; the one before is left. The calling thread owns
 * it.
 */
static inline struct segment *test_job(void)
{
	static struct segment *segment;
	char directory[512], message[512] = "", job[64];
	const char *tmp = getenv("TMPDIR");

	segment_leave(segment);
	segment = NULL;
	if (!getenv("SPILLWAY_STATE_DIR")) {
		snprintf(directory, sizeof(directory), "%s/spillway-test-XXXXXX",
		         tmp ? tmp : "/tmp");
		ck_assert_ptr_nonnull(mkdtemp(directory));
		setenv("SPILLWAY_STATE_DIR", directory, 1);
	}
	snprintf(job, sizeof(job), "test-%d", (int)getpid());
	ck_assert_msg(segment_join(job, NULL, NULL, &segment, message, sizeof(message)) == 0, "%s",
	              message);
	return segment;
}

#endif
