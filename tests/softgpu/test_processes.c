/* SPDX-License-Identifier: MIT */
/* Tests of several processes: memory of a device that runs out, and time of a device in slices. */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

/* A pipe for "I am ready" in one direction. */
struct signal_pipe {
	int ends[2];
};

static struct signal_pipe pipe_new(void)
{
	struct signal_pipe new;
	CHECK(pipe(new.ends) == 0);
	return new;
}

static void tell(struct signal_pipe *pipe)
{
	CHECK(write(pipe->ends[1], "x", 1) == 1);
}

static void await(struct signal_pipe *pipe)
{
	char byte;
	CHECK(read(pipe->ends[0], &byte, 1) == 1);
}

/* Holds memory until it is killed. */
static void hold_memory(struct signal_pipe *ready)
{
	CUdeviceptr memory;
	start();
	OK(cuMemAlloc_v2(&memory, 40 * MIB));
	tell(ready);
	for (;;)
		pause();
}

static void shared_memory(void)
{
	struct signal_pipe ready = pipe_new();
	pid_t holder = fork();
	if (holder == 0)
		hold_memory(&ready);
	await(&ready);
	start();
	CUdeviceptr memory, more;
	size_t available, total;
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(total == 64 * MIB && available == 8 * MIB); /* two contexts of 8 MiB, 40 MiB held */
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&memory, 10 * MIB));
	struct softgpu_truth truth[4];
	CHECK(softgpu_truth(0, truth, 4) == 2);
	for (int i = 0; i < 2; i++)
		CHECK(truth[i].physical_bytes == (truth[i].pid == holder ? 48 : 8) * MIB);
	CHECK(system("\"$BUILD/softgpu/softgpu-truth\" | grep -c . | grep -qx 3") == 0);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	/* What a killed process held is there again. */
	OK(cuMemAlloc_v2(&memory, 10 * MIB));
	OK(cuMemAlloc_v2(&more, 40 * MIB));
	CHECK(softgpu_truth(0, truth, 4) == 1);
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* The longest it takes to run `count` kernels of 10 ms, in milliseconds. */
static double run_kernels(int count)
{
	CUmodule module;
	CUfunction bump;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&bump, module, "bump"));
	uint64_t begin = now();
	for (int i = 0; i < count; i++)
		OK(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
	return (double)(now() - begin) / 1e6;
}

#define SLICE_NS 2000000ULL

/* Runs 30 kernels here and as many in another process at the same time. */
static double run_against_another(void)
{
	struct signal_pipe ready = pipe_new(), go = pipe_new();
	pid_t other = fork_bound();
	if (other == 0) {
		start();
		tell(&ready);
		await(&go);
		run_kernels(30);
		exit(0);
	}
	start();
	await(&ready);
	tell(&go);
	double milliseconds = run_kernels(30);
	int status;
	waitpid(other, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return milliseconds;
}

/*
 * Runs a test that a busy machine can disturb again until it was not; in a process of its own each
 * time.
 */
static void until_undisturbed(void (*test)(void))
{
	int status = 1;
	for (uint64_t begin = now(); status != 0 && now() - begin < 200000000000ULL;) {
		pid_t child = fork_bound();
		if (child == 0) {
			test();
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
	}
	CHECK(status == 0);
}

static void half_each(void)
{
	double milliseconds = run_against_another();
	printf("      300 ms of kernels took %.0f ms beside another process\n", milliseconds);
	CHECK(milliseconds > 500 && milliseconds < 3000);
	struct softgpu_truth truth[2];
	CHECK(softgpu_truth(0, truth, 2) == 1);
	CHECK(truth[0].launches == 30 && truth[0].busy_ns >= 300000000);
	CHECK(truth[0].busy_ns < 450000000); /* the other's slices are not in it */
}

/* Two processes that want the device all the time get half of it each. */
static void slices(void)
{
	until_undisturbed(half_each);
}

static void all_each(void)
{
	double milliseconds = run_against_another();
	printf("      300 ms of kernels took %.0f ms beside another process under MPS\n",
	       milliseconds);
	CHECK(milliseconds >= 300 && milliseconds < 500);
}

static void together(void)
{
	until_undisturbed(all_each);
}

/* A process with an endless kernel. */
static pid_t start_endless(void)
{
	struct signal_pipe ready = pipe_new();
	pid_t other = fork_bound();
	if (other == 0) {
		start();
		CUmodule module;
		CUfunction spin;
		uint64_t forever = UINT64_MAX;
		void *parameters[] = {&forever};
		OK(cuModuleLoadData(&module, kernels));
		OK(cuModuleGetFunction(&spin, module, "spin"));
		OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
		tell(&ready);
		for (;;)
			pause();
	}
	start();
	await(&ready);
	usleep(5000);
	return other;
}

/*
 * A process keeps the device for a slice, not for a kernel: ten of its kernels of 0.1 ms follow
 * each other although another process waits. One of many tries is enough on a busy machine.
 */
static void a_slice_is_more_than_a_kernel(void)
{
	pid_t other = start_endless();
	CUmodule module;
	CUfunction bump;
	CUevent begin, end;
	float least = 1e9F, elapsed;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&bump, module, "bump"));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	for (int i = 0; i < 200 && least >= 2; i++) {
		for (int j = 0; j <= 10; j++) {
			OK(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
			OK(cuEventRecord(j == 0 ? begin : end, NULL));
		}
		OK(cuCtxSynchronize());
		OK(cuEventElapsedTime(&elapsed, begin, end));
		CHECK(elapsed >= 0.99F);
		least = elapsed < least ? elapsed : least;
	}
	printf("      10 kernels of 0.1 ms took %.2f ms beside another process\n", least);
	CHECK(least < 2);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/*
 * A process that is killed while it has the device does not keep it: who comes next would wait
 * until the alarm.
 */
static void killed_in_its_slice(void)
{
	struct signal_pipe ready = pipe_new(), go = pipe_new();
	pid_t idle = fork_bound();
	if (idle == 0) {
		await(&go);
		start();
		tell(&ready);
		for (;;)
			pause();
	}
	pid_t other = start_endless();
	double shared = run_kernels(1);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	/* Nor does whoever has its place in the books next. */
	tell(&go);
	await(&ready);
	double alone = run_kernels(10);
	kill(idle, SIGKILL);
	waitpid(idle, NULL, 0);
	printf("      10 ms took %.0f ms beside an endless kernel, 100 ms %.0f ms alone\n", shared,
	       alone);
}

static uint64_t busy_ns_of(pid_t pid)
{
	struct softgpu_truth truth[4];
	int count = softgpu_truth(0, truth, 4);
	for (int i = 0; i < count && i < 4; i++)
		if (truth[i].pid == pid)
			return truth[i].busy_ns;
	return 0;
}

/*
 * Nor does one that is stopped; what others have meanwhile is not in its books, and it gets its
 * turns again.
 */
static void stopped_in_its_slice(void)
{
	uint64_t begin = now();
	pid_t other = start_endless();
	for (int i = 0; i < 5; i++) {
		int status;
		kill(other, SIGSTOP);
		CHECK(waitpid(other, &status, WUNTRACED) == other && WIFSTOPPED(status));
		CHECK(run_kernels(10) >= 100);
		uint64_t before = busy_ns_of(other);
		kill(other, SIGCONT);
		while (busy_ns_of(other) < before + SLICE_NS * 2)
			usleep(1000);
	}
	uint64_t elapsed = now() - begin, busy = busy_ns_of(other);
	CHECK(busy + 5 * 10 * 10000000ULL <= elapsed + 5 * SLICE_NS);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* --- the file that processes share --- */

static void use_once(void)
{
	pid_t child = fork();
	if (child == 0) {
		CUdeviceptr memory;
		start();
		OK(cuMemAlloc_v2(&memory, MIB));
		exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Fills a file with BYTES that no driver wrote. */
static void spoil(const char *directory, const char *name, size_t bytes)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *file = fopen(path, "we");
	CHECK(file);
	while (bytes--)
		CHECK(fputc(0xff, file) == 0xff);
	CHECK(fclose(file) == 0);
}

/* A file that another architecture or version left is not taken for this driver's. */
static void file_of_another_layout(void)
{
	char directory[] = "/tmp/softgpu-test-XXXXXX", name[256] = "";
	CHECK(mkdtemp(directory));
	setenv("SOFTGPU_STATE_DIR", directory, 1);
	for (int version = 5; version < 8; version++) {
		snprintf(name, sizeof(name), "machine-%d", version);
		spoil(directory, name, MIB);
	}
	use_once();

	DIR *entries = opendir(directory);
	CHECK(entries);
	int spoilt = 0;
	for (const struct dirent *entry; (entry = readdir(entries));)
		if (strchr(entry->d_name, '_') || strstr(entry->d_name, "aarch")) {
			spoil(directory, entry->d_name, MIB / 4);
			spoilt++;
		}
	closedir(entries);
	CHECK(spoilt == 1);
	use_once();

	char command[64];
	snprintf(command, sizeof(command), "rm -r %s", directory);
	CHECK(system(command) == 0);
}

int main(void)
{
	int failed = 0;
	failed += RUN(file_of_another_layout, NULL);
	failed += RUN(shared_memory, "SOFTGPU_MEMORY=64M");
	failed += RUN(slices, "SOFTGPU_KERNEL_TIME_US=10000");
	failed += RUN(together, "SOFTGPU_KERNEL_TIME_US=10000 SOFTGPU_MODE=mps");
	failed += RUN(a_slice_is_more_than_a_kernel, "SOFTGPU_KERNEL_TIME_US=100");
	failed += RUN(killed_in_its_slice, "SOFTGPU_KERNEL_TIME_US=10000");
	failed += RUN(stopped_in_its_slice, "SOFTGPU_KERNEL_TIME_US=10000");
	return failed != 0;
}
