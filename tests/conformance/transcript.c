/* SPDX-License-Identifier: MIT */
/* The transcript programs share this; see transcript.h. */
#include "tests/conformance/transcript.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void tell(const char *question, const char *answer, ...)
{
	va_list args;

	printf("%s: ", question);
	va_start(args, answer);
	vprintf(answer, args);
	va_end(args);
	putchar('\n');
	fflush(stdout); /* what was answered before a crash is seen */
}

void tell_status(const char *question, CUresult status)
{
	tell(question, "%s", client_error_name(status));
}

void tell_bool(const char *question, bool yes)
{
	tell(question, yes ? "yes" : "no");
}

void cannot_ask(const char *reason)
{
	printf("not asked: %s\n", reason);
	exit(77);
}

static void CUDA_CB wait_for_end(void *data)
{
	struct hold *hold = data;

	atomic_store(&hold->begun, true);
	while (!atomic_load(&hold->ended))
		usleep(100);
}

void hold_stream(struct hold *hold, CUstream stream)
{
	atomic_store(&hold->begun, false);
	atomic_store(&hold->ended, false);
	CU(cuLaunchHostFunc(stream, wait_for_end, hold));
	while (!atomic_load(&hold->begun))
		usleep(100);
}

void hold_end(struct hold *hold)
{
	atomic_store(&hold->ended, true);
}

CUfunction spin_kernel(void)
{
	return client_function(client_load_module("kernels.ptx"), "spin");
}

void spin(CUfunction kernel, CUdeviceptr sink, CUstream stream)
{
	unsigned loops = 4000000;

	CLIENT_LAUNCH(kernel, 1, 1, 1, stream, &sink, &loops);
}
