/* SPDX-License-Identifier: MIT */
/* Answers of cuGetProcAddress: versions, flags, suffixes and misses, before and after cuInit. */
#include "tests/conformance/transcript.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef CUresult first_form(const char *, void **, int, cuuint64_t);

/* The answers so far: an address is told by the first question that it answered. */
static struct {
	const char *name;
	int version;
	cuuint64_t flags;
	void *address;
} seen[64];
static size_t seen_count;

static const char *tell_address(const char *name, int version, cuuint64_t flags, void *address)
{
	static char text[64];

	if (!address)
		return "NULL";
	for (size_t i = 0; i < seen_count; i++) {
		if (strcmp(seen[i].name, name) == 0 && seen[i].address == address) {
			snprintf(text, sizeof(text), "as of %d, flags %llu", seen[i].version,
			         (unsigned long long)seen[i].flags);
			return text;
		}
	}
	seen[seen_count].name = name;
	seen[seen_count].version = version;
	seen[seen_count].flags = flags;
	seen[seen_count++].address = address;
	return "an address of its own";
}

static void ask(const char *name, int version, cuuint64_t flags)
{
	void *address = (void *)1;
	CUdriverProcAddressQueryResult found = (CUdriverProcAddressQueryResult)99;
	char question[128];
	CUresult status = cuGetProcAddress(name, &address, version, flags, &found);

	snprintf(question, sizeof(question), "\"%s\" of %d, flags %llu", name, version,
	         (unsigned long long)flags);
	if (status != CUDA_SUCCESS)
		tell_status(question, status);
	else
		tell(question, "%s, status %d", tell_address(name, version, flags, address),
		     (int)found);
}

/* The form without a status, which older callers have. */
static void ask_first_form(const char *name, int version)
{
	first_form *get = (first_form *)dlsym(RTLD_DEFAULT, "cuGetProcAddress");
	void *address = (void *)1;
	char question[128];

	snprintf(question, sizeof(question), "first form: \"%s\" of %d", name, version);
	CUresult status = get(name, &address, version, 0);
	if (status == CUDA_SUCCESS)
		tell(question, "%s", tell_address(name, version, 0, address));
	else
		tell(question, "%s, pointer %s", client_error_name(status),
		     address == (void *)1 ? "untouched" : "changed");
}

static void ask_all(void)
{
	ask("cuMemAlloc", 2000, 0);
	ask("cuMemAlloc", 3010, 0);
	ask("cuMemAlloc", 3020, 0);
	ask("cuMemAlloc", 12000, 0);
	ask("cuMemAlloc", 1000, 0);
	ask("cuMemAlloc_v2", 12000, 0);
	ask("cuStreamSynchronize", 12000, 0);
	ask("cuStreamSynchronize", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
	ask("cuStreamSynchronize", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	ask("cuStreamSynchronize", 6000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	ask("cuStreamSynchronize_ptsz", 12000, 0);
	ask("cuMemcpyHtoD", 12000, 0);
	ask("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	ask("cuMemcpyHtoDAsync", 12000, 0);
	ask("cuMemcpyHtoDAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	ask("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	ask("cuLaunchKernel", 4000, 0);
	ask("cuLaunchKernelEx", 11000, 0);
	ask("cuLaunchKernelEx", 11060, 0);
	ask("cuLaunchKernelEx", 12000, 0);
	ask("cuStreamWaitValue32", 8000, 0);
	ask("cuStreamWaitValue32", 12000, 0);
	ask("cuStreamGetCaptureInfo", 10010, 0);
	ask("cuStreamGetCaptureInfo", 12000, 0);
	ask("cuCtxCreate", 11030, 0);
	ask("cuCtxCreate", 11040, 0);
	ask("cuCtxCreate", 12000, 0);
	ask("cuGetProcAddress", 11030, 0);
	ask("cuGetProcAddress", 12000, 0);
	ask("", 0, 0);
	ask("cuNoSuchFunction", 12000, 0);
	ask("cuMemAlloc", 12000, 3);
	ask("cuMemAlloc", 12000, 4);
	ask("cumemalloc", 12000, 0);
	ask_first_form("cuMemAlloc", 12000);
	ask_first_form("cuNoSuchFunction", 12000);
	ask_first_form("cuLaunchKernelEx", 11000);
}

int main(void)
{
	void *address = NULL;
	CUdriverProcAddressQueryResult found;

	ask_all(); /* before cuInit */
	CU(cuInit(0));
	tell_status("no name", cuGetProcAddress(NULL, &address, 12000, 0, &found));
	tell_status("no place for the address",
	            cuGetProcAddress("cuMemAlloc", NULL, 12000, 0, &found));
	tell_status("no place for the status",
	            cuGetProcAddress("cuMemAlloc", &address, 12000, 0, NULL));
	return 0;
}
