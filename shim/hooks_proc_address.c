/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the driver chooses the function, we exchange its address for our hook's.
 *
 * Whatever name, version and flags were asked, the address returned is an exported symbol's; so the
 * right ABI needs no table of names and versions.
 *
 * Checked against NVIDIA's driver libraries 450, 470, 535, 550 and 555, and 535 for aarch64,
 * without a GPU: each name at each CUDA version, and (x86-64) each function's answer to
 * meaningless arguments. The exported symbol is handed out, not the hook: debuggers and profilers
 * see its name, and addresses compare equal to dlsym's.
 */
#include "shim/attach.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"

enum { NOTED_MAX = 256 };

/*
 * Returns whether a name is still to be said. Each is said once; when the table is full, no more.
 */
static bool is_news(const char *symbol)
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
 * know a handle of ours, and what it pinned would move.
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

/*
 * Returns whether a form that we do not know is kept from the program, as if the driver were older.
 */
static bool is_withheld(const char *symbol)
{
	bool acts = shim_acts_on(symbol);
	bool withheld = acts && takes_memory(symbol) && job_is_active();

	if ((acts || log_enabled(LOG_DEBUG)) && is_news(symbol)) {
		if (withheld)
			log_warning(
			    "cuGetProcAddress(%s): the driver has a newer form than Spillway "
			    "knows: the program is told that it has none",
			    symbol);
		else if (acts)
			log_warning("cuGetProcAddress(%s): the driver has a newer form than "
			            "Spillway knows: "
			            "calls of it are neither limited nor counted",
			            symbol);
		else
			log_debug("cuGetProcAddress(%s): unknown to Spillway, passed through",
			          symbol);
	}
	return withheld;
}

/* Exchanges the driver's function for ours. Returns whether the program may have it. */
static bool exchange(const char *symbol, void **function)
{
	bool known;

	if (!*function)
		return true;
	*function = shim_address_for(*function, &known);
	return known || !symbol || !*symbol || !is_withheld(symbol);
}

HOOK(cuGetProcAddress, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	/* A miss leaves the pointer as it is (drivers 535 to 555). */
	void *function = pfn ? *pfn : NULL;
	CUresult result = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);

	if (result != CUDA_SUCCESS || !pfn || exchange(symbol, pfn))
		return result;
	*pfn = function;
	return CUDA_ERROR_NOT_FOUND;
}

HOOK(cuGetProcAddress_v2, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (result != CUDA_SUCCESS || !pfn || exchange(symbol, pfn))
		return result;
	*pfn = NULL;
	if (symbolStatus)
		*symbolStatus = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	return result;
}
