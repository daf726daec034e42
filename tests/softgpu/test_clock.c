/* SPDX-License-Identifier: MIT */
/*
 * Tests of the device's clock: how long kernels have it, by its books and by events, at any load of
 * the machine.
 */
#include <math.h>
#include <semaphore.h>
#include <time.h>

#include "tests/softgpu/test.h"

enum { KERNELS = 20, NAP_NS = 400000 };

static const char kernels[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry nap(.param .u32 ns)\n{\n"
                              ".reg .b32 %r;\nld.param.u32 %r, [ns];\nnanosleep.u32 %r;\nret;\n}\n";

static CUfunction nap;

static void load(void)
{
	CUmodule module;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&nap, module, "nap"));
}

static void launch(unsigned int ns, CUstream stream)
{
	void *parameters[] = {&ns};
	OK(cuLaunchKernel(nap, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static double busy_ms(void)
{
	struct softgpu_truth truth;
	CHECK(softgpu_truth(0, &truth, 1) == 1);
	return (double)truth.busy_ns / 1e6;
}

/*
 * Between two events in a stream, with kernels that were all queued before the first one could
 * begin.
 */
static double queued_ms(int count, unsigned int ns)
{
	CUstream stream;
	CUevent begin, end;
	float milliseconds;
	sem_t gate;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	OK(cuEventRecord(begin, stream));
	for (int i = 0; i < count; i++)
		launch(ns, stream);
	OK(cuEventRecord(end, stream));
	sem_post(&gate);
	OK(cuStreamSynchronize(stream));
	OK(cuEventElapsedTime(&milliseconds, begin, end));
	return milliseconds;
}

/*
 * Queued kernels of 20 us last 20 us, although each sleep of the driver's threads ends up to 50 us
 * late. A busy machine may hold the threads up for longer, so one of many tries is enough.
 */
static void short_kernels_last_their_time(void)
{
	enum { SHORT = 500 };
	const double wanted = SHORT * 0.02;
	double least = 1e9;
	start();
	load();
	for (int i = 0; i < 1000 && least > 1.15 * wanted; i++) {
		double elapsed = queued_ms(SHORT, 20000);
		CHECK(elapsed >= 0.999 * wanted);
		least = elapsed < least ? elapsed : least;
	}
	printf("      %d kernels of 20 us took %.2f ms\n", SHORT, least);
	CHECK(least <= 1.15 * wanted);
}

/* Nothing lies between queued kernels: what the events say is what the device was busy. */
static void queued_kernels_follow_each_other(void)
{
	start();
	load();
	double elapsed = queued_ms(KERNELS, NAP_NS);
	CHECK(fabs(elapsed - busy_ms()) < 0.01);
	CHECK(elapsed >= KERNELS * NAP_NS / 1e6);
}

/* SOFTGPU_KERNEL_TIME_US is the least that a kernel takes, also one that sleeps by itself. */
static void kernel_time_is_the_least(void)
{
	start();
	load();
	double elapsed = queued_ms(KERNELS, NAP_NS);
	CHECK(fabs(elapsed - busy_ms()) < 0.01);
	CHECK(elapsed >= KERNELS * 1.0);
}

/*
 * Kernels of two streams take turns on the device, and one that finds it idle has it from when it
 * was launched.
 */
static void idle_is_not_busy(void)
{
	start();
	load();
	CUstream streams[2];
	for (int i = 0; i < 2; i++)
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < KERNELS; i++)
		launch(NAP_NS, streams[i % 2]);
	OK(cuCtxSynchronize());
	double busy = busy_ms();
	CHECK(busy >= KERNELS * NAP_NS / 1e6);
	usleep(100000);
	CHECK(busy_ms() == busy);
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	launch(NAP_NS, streams[0]);
	OK(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &end);
	double took =
	    (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
	CHECK(busy_ms() - busy >= NAP_NS / 1e6);
	CHECK(busy_ms() - busy <= took);
}

/*
 * The samples of softgpu-truth --watch end with the process that was there, and count up to what it
 * used.
 */
static void watched(void)
{
	FILE *samples = popen("exec timeout 60 \"$BUILD/softgpu/softgpu-truth\" --watch 5", "r");
	char line[200];
	CHECK(samples && fgets(line, sizeof(line), samples));
	CHECK(strcmp(line, "time_ns\tdevice\tpid\tbusy_ns\tfetched_bytes\n") == 0);
	int ends[2];
	CHECK(pipe(ends) == 0);
	pid_t child = fork_bound();
	if (child == 0) {
		start();
		load();
		for (int i = 0; i < KERNELS; i++)
			launch(NAP_NS, NULL);
		OK(cuCtxSynchronize());
		CHECK(read(ends[0], line, 1) == 1);
		exit(0);
	}
	unsigned long long last_time = 0, last_busy = 0;
	int known = 0;
	while (fgets(line, sizeof(line), samples)) {
		unsigned long long time, busy;
		int device, pid;
		CHECK(sscanf(line, "%llu %d %d %llu", &time, &device, &pid, &busy) == 4);
		CHECK(device == 0 && pid == child && time > last_time && busy >= last_busy);
		last_time = time;
		last_busy = busy;
		if (!known && busy >= KERNELS * (unsigned long long)NAP_NS) {
			known = 1;
			CHECK(write(ends[1], "", 1) == 1);
		}
	}
	CHECK(known && pclose(samples) == 0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	int failed = 0;
	failed += RUN(queued_kernels_follow_each_other, NULL);
	failed += RUN(queued_kernels_follow_each_other, "SOFTGPU_MODE=mps");
	failed += RUN(short_kernels_last_their_time, NULL);
	failed += RUN(kernel_time_is_the_least, "SOFTGPU_KERNEL_TIME_US=1000");
	failed += RUN(idle_is_not_busy, NULL);
	failed += RUN(watched, NULL);
	return failed != 0;
}
