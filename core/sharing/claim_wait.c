/* SPDX-License-Identifier: MIT */
/* Words for why a job waits for memory. */
#include "core/sharing/claim_wait.h"

static const struct {
	const char *name, *text;
} words[CLAIM_WAITS] = {
    [CLAIM_NONE] = {"none", "it does not"},
    [CLAIM_IS_MET] = {"met", "other jobs are making room for it"},
    [CLAIM_OTHERS] = {"others", "another job's claim is met first"},
    [CLAIM_QUIET] =
        {"quiet",
         "memory has just moved between jobs, and stays for ten times as long as that took"},
    [CLAIM_NOBODY] = {"nobody", "no job that could give memory borrows any or is idle"},
    [CLAIM_BEYOND] = {"beyond", "the job is not entitled to more of the GPU"},
};

const char *claim_wait_name(enum claim_wait why)
{
	return why < CLAIM_WAITS ? words[why].name : "unknown";
}

const char *claim_wait_text(enum claim_wait why)
{
	return why < CLAIM_WAITS ? words[why].text : "for a reason that this version does not know";
}
