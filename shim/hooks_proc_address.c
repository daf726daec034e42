/*
 * cuGetProcAddress: the driver chooses the function, we exchange its address for our hook's.
 *
 * Whatever name, version and flags were asked, the address returned is an exported symbol's; so the
 * right ABI needs no table of names and versions.
 */
#include "shim/shim.h"

#include "core/base/log.h"

static void exchange(const char *symbol, void **function)
{
	if (!*function)
		return;
	*function = shim_address_for(*function);
	if (symbol && *symbol && log_enabled(LOG_DEBUG) && !shim_knows(symbol))
		log_debug("cuGetProcAddress(%s): unknown to Spillway, passed through", symbol);
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
