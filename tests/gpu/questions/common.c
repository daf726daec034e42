/* SPDX-License-Identifier: MIT */
/* Several topics use this; see question.h. */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

bool not_asked(const struct question *question)
{
	if (attempt.result == CUDA_SUCCESS)
		return false;
	answer(question->name, "not asked", "%.*s: %s", (int)strcspn(attempt.call, "("),
	       attempt.call, gpu_error_name(attempt.result));
	return true;
}

bool refused(const struct question *question)
{
	return attempt_failed(question->name);
}

static volatile unsigned *go; /* of the host */
static pthread_t timer;

static void *let_go(void *unused)
{
	(void)unused;
	usleep(BUSY_MS * 1000);
	*go = 1;
	return NULL;
}

void launch(const char *file, const char *kernel, unsigned blocks, unsigned threads, CUstream on,
            void **arguments)
{
	CUfunction function = gpu_kernel_of(file, kernel);

	ATTEMPT(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, on, arguments, NULL));
}

void busy_begin(CUstream on)
{
	const volatile unsigned *argument;

	if (!go)
		ATTEMPT(cuMemHostAlloc((void **)&go, sizeof(*go), CU_MEMHOSTALLOC_DEVICEMAP));
	gpu_kernel_of(KERNELS, "spin"); /* its loading would wait, or take its time */
	if (attempt_failed(NULL))
		return;
	*go = 0;
	argument = go;
	if (pthread_create(&timer, NULL, let_go, NULL) != 0)
		program_die("pthread_create failed");
	launch(KERNELS, "spin", 1, 1, on, (void *[]){&argument});
	usleep(10000); /* it runs */
}

void busy_end(CUstream on)
{
	if (attempt_failed(NULL))
		return;
	pthread_join(timer, NULL);
	ATTEMPT(cuStreamSynchronize(on));
}

void map_anew(struct range *range, char backing)
{
	CUmemAllocationProp properties = range_properties(backing);
	CUmemAccessDesc access = range_access();

	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemUnmap(range->base, range->chunk));
	ATTEMPT(cuMemCreate(&range->handles[1], range->chunk, &properties, 0));
	ATTEMPT(cuMemMap(range->base, range->chunk, 0, range->handles[1], 0));
	ATTEMPT(cuMemSetAccess(range->base, range->chunk, &access, 1));
}
