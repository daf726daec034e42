/* SPDX-License-Identifier: MIT */
/* Events and timing: facts that hold for any clock, and streams that wait for each other. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { THREADS = 64, FEW = 2000, MANY = 400000 };

static unsigned expected_value(unsigned thread, unsigned count)
{
	unsigned x = thread;

	for (unsigned i = 0; i < count; i++)
		x = x * 1664525u + 1013904223u;
	return x;
}

static void CUDA_CB note_call(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST);
}

int main(void)
{
	unsigned few = FEW, many = MANY, out[THREADS];
	float short_ms, long_ms, whole_ms;
	CUevent event[4], untimed;
	CUstream first, second;
	int called = 0;
	CUmodule module = sample_open("timing.ptx");
	CUfunction steps = client_function(module, "steps");
	CUdeviceptr memory = client_alloc(sizeof(out));

	for (size_t i = 0; i < 4; i++)
		CU(cuEventCreate(&event[i], CU_EVENT_DEFAULT));
	CU(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));

	double start_ms = program_now_ms();
	CU(cuEventRecord(event[0], first));
	CLIENT_LAUNCH(steps, 1, 1, THREADS, first, &memory, &few);
	CU(cuEventRecord(event[1], first));
	CU(cuEventRecord(event[2], first));
	CLIENT_LAUNCH(steps, 1, 1, THREADS, first, &memory, &many);
	CU(cuEventRecord(event[3], first));
	CU(cuEventSynchronize(event[3]));
	double host_ms = program_now_ms() - start_ms;
	CU(cuEventElapsedTime(&short_ms, event[0], event[1]));
	CU(cuEventElapsedTime(&long_ms, event[2], event[3]));
	CU(cuEventElapsedTime(&whole_ms, event[0], event[3]));
	sample_check(short_ms >= 0 && long_ms > 0, "time does not run backwards");
	sample_check(whole_ms >= long_ms && whole_ms >= short_ms,
	             "the whole takes no less than a part");
	/* 10 %: the device may have a clock of its own. */
	sample_check(whole_ms <= host_ms * 1.1 + 1, "the host saw at least as much time pass");
	SAMPLE_EXPECT(CUDA_SUCCESS, cuEventQuery(event[3]));
	sample_download(out, memory, sizeof(out));
	bool right = true;
	for (unsigned i = 0; i < THREADS; i++)
		right &= out[i] == expected_value(i, MANY);
	sample_check(right, "%d steps in each thread", MANY);

	CU(cuEventRecord(untimed, first));
	CU(cuStreamSynchronize(first));
	SAMPLE_EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&whole_ms, event[0], untimed));

	/* The second stream waits for the first, whose work is long; a host function comes last. */
	CLIENT_LAUNCH(steps, 1, 1, THREADS, first, &memory, &many);
	CU(cuEventRecord(untimed, first));
	CU(cuStreamWaitEvent(second, untimed, 0));
	CLIENT_LAUNCH(steps, 1, 1, THREADS, second, &memory, &few);
	CU(cuLaunchHostFunc(second, note_call, &called));
	CU(cuStreamSynchronize(second));
	sample_check(__atomic_load_n(&called, __ATOMIC_SEQ_CST) == 1, "the host function ran once");
	SAMPLE_EXPECT(CUDA_SUCCESS, cuStreamQuery(first));
	sample_download(out, memory, sizeof(out));
	right = true;
	for (unsigned i = 0; i < THREADS; i++)
		right &= out[i] == expected_value(i, FEW);
	sample_check(right, "the waiting stream wrote last");

	for (size_t i = 0; i < 4; i++)
		CU(cuEventDestroy(event[i]));
	CU(cuEventDestroy(untimed));
	CU(cuStreamDestroy(first));
	CU(cuStreamDestroy(second));
	client_free(&memory, sizeof(out));
	CU(cuModuleUnload(module));
	return sample_end();
}
