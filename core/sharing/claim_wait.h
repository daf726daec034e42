/* SPDX-License-Identifier: MIT */
/* Why a job waits for memory that it has on the host, as cards say it. */
#ifndef SPILLWAY_CLAIM_WAIT_H
#define SPILLWAY_CLAIM_WAIT_H

enum claim_wait {
	CLAIM_NONE,   /* it does not */
	CLAIM_IS_MET, /* others make room for it */
	CLAIM_OTHERS, /* another job's claim is met first */
	CLAIM_QUIET,  /* memory has just changed hands */
	CLAIM_NOBODY, /* nobody has any that is to be given */
	CLAIM_BEYOND, /* it is not entitled to more */
	CLAIM_WAITS
};

/* Returns a word for it, and what it means, for people. */
const char *claim_wait_name(enum claim_wait why);
const char *claim_wait_text(enum claim_wait why);

#endif
