/*
 * cuGetProcAddress: the driver chooses the function, we exchange its address for our hook's.
 *
 * Whatever name, version and flags were asked, the address returned is an exported symbol's; so the
 * right ABI needs no table of names and versions.
 */
#include "shim/attach.h"

#include <stdatomic.h>

#include "core/base/log.h"

enum { NOTED_MAX = 256 };

/*
 * Returns whether a name is still to be said. Each is said once; when the table is full, no more.
 */
static bool is_news(const char *symbol)
{
	static _Atomic uint64_t noted[NOTED_MAX];
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (const char *c = symbol; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	hash |= 1;
	for (size_t i = 0; i < NOTED_MAX; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&noted[i], &found, hash))
			return true;
		if (found == hash)
			return false;
	}
	return false;
}

static void note_unknown(const char *symbol)
{
	if (shim_acts_on(symbol)) {
		if (is_news(symbol))
			log_warning("cuGetProcAddress(%s): the driver has a newer form than "
			            "Spillway knows: "
			            "what is done by it is neither limited nor counted",
			            symbol);
	} else if (log_enabled(LOG_DEBUG) && is_news(symbol)) {
		log_debug("cuGetProcAddress(%s): unknown to Spillway, passed through", symbol);
	}
}

static void exchange(const char *symbol, void **function)
{
	bool known;

	if (!*function)
		return;
	*function = shim_address_for(*function, &known);
	if (!known && symbol && *symbol)
		note_unknown(symbol);
}

HOOK(cuGetProcAddress, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);

	if (result == CUDA_SUCCESS && pfn)
		exchange(symbol, pfn);
	return result;
}

HOOK(cuGetProcAddress_v2, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (result == CUDA_SUCCESS && pfn)
		exchange(symbol, pfn);
	return result;
}
