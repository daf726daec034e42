/* SPDX-License-Identifier: MIT */
/*
 * Functions of the driver that we do not know. They go straight to the driver, with one exception.
 * A newer form of a call that takes handles of memory is withheld from a job, because the driver
 * does not know our handles.
 */
#include "shim/attach.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "shim/disabled.h"

enum { NOTED_MAX = 256 };

/*
 * Returns whether a name is still to be said. Each is said once; when the table is full, no more.
 */
static bool unlisted_is_news(const char *symbol)
{
	static _Atomic uint64_t noted[NOTED_MAX];
	const uint64_t hash = hash_text(HASH_NOTHING, symbol) | 1;

	for (size_t i = 0; i < NOTED_MAX; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&noted[i], &found, hash))
			return true;
		if (found == hash)
			return false;
	}
	return false;
}

/*
 * Returns whether calls of that name are given handles of memory, or pin it: the driver would not
 * know a handle of ours, and memory that it pinned would move.
 */
static bool takes_memory(const char *symbol)
{
	static const char families[][32] = {
	    "cuIpcGetMemHandle", "cuMemExport",    "cuMemGetAllocationProperties",
	    "cuMemGetHandle",    "cuMemMap",       "cuMemRelease",
	    "cuMemRetain",       "cuMemSetAccess", "cuMemUnmap",
	    "cuMulticast",
	};

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (strncmp(symbol, families[i], strlen(families[i])) == 0)
			return true;
	return false;
}

bool shim_withholds(const char *symbol, const char *by)
{
	bool acts = shim_acts_on(symbol);
	bool withheld = acts && takes_memory(symbol) && job_is_active();

	if (!(acts || log_enabled(LOG_DEBUG)) || !unlisted_is_news(symbol))
		return withheld;
	if (withheld)
		log_warning("%s(%s): the driver has a newer form than Spillway knows: the program "
		            "is told that it has none",
		            by, symbol);
	else if (acts)
		log_warning("%s(%s): the driver has a newer form than Spillway knows: calls of it "
		            "are neither limited nor counted",
		            by, symbol);
	else
		log_debug("%s(%s): unknown to Spillway, passed through", by, symbol);
	return withheld;
}

static CUresult unlisted_withheld(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Says once, in a job that has a name or a limit, that such functions are not accounted. */
static void say_unaccounted(const char *symbol)
{
	const struct job_config *job = job_configuration();

	if (job && (!job->is_unnamed || *job->shared_by))
		log_once(LOG_WARNING,
		         "%s: the driver has functions that Spillway does not know, and the "
		         "program calls them: they are neither limited nor counted; 'spillway "
		         "doctor' lists them",
		         symbol);
}

/*
 * The address is kept where later calls go the same way and there is nothing left to say. It is not
 * kept before cuInit, when there is no job yet, nor for a form that may be withheld.
 */
void *shim_resolve_unlisted(struct unlisted *function, const struct trampolines *from)
{
	const char *symbol = (const char *)function + function->name;
	int saved = errno;
	bool lasts;
	void *address = shim_driver_function(symbol, from, &lasts);

	if (lasts && shim_withholds(symbol, "linked"))
		address = (void *)unlisted_withheld;
	else if (lasts && job_is_active())
		say_unaccounted(symbol);
	if (lasts && !shim_acts_on(symbol) && (job_is_active() || shim_is_disabled()))
		__atomic_store_n(&function->address, address, __ATOMIC_RELEASE);
	errno = saved;
	return address;
}
