/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the driver chooses the function, we exchange its address for our hook's.
 *
 * For any name, version and flags, the address returned is an exported symbol's; so the right ABI
 * needs no table of names and versions.
 *
 * Checked against NVIDIA's driver libraries 450, 470, 535, 550 and 555, and 535 for aarch64,
 * without a GPU: each name at each CUDA version, and (x86-64) each function's answer to meaningless
 * arguments. The exported symbol is handed out, not the hook: debuggers and profilers see its name,
 * and addresses compare equal to dlsym's.
 */
#include "shim/attach.h"

/* Exchanges the driver's function for ours. Returns whether the program may have it. */
static bool proc_address_exchange(const char *symbol, void **function)
{
	bool known;

	if (!*function)
		return true;
	*function = shim_address_for(*function, &known);
	return known || !symbol || !*symbol || !shim_withholds(symbol, "cuGetProcAddress");
}

HOOK(cuGetProcAddress, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	/* A miss leaves the pointer as it is (drivers 535 to 555). */
	void *function = pfn ? *pfn : NULL;
	CUresult result = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);

	if (result != CUDA_SUCCESS || !pfn || proc_address_exchange(symbol, pfn))
		return result;
	*pfn = function;
	return CUDA_ERROR_NOT_FOUND;
}

HOOK(cuGetProcAddress_v2, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (result != CUDA_SUCCESS || !pfn || proc_address_exchange(symbol, pfn))
		return result;
	*pfn = NULL;
	if (symbolStatus)
		*symbolStatus = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	return result;
}
