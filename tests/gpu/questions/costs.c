/* SPDX-License-Identifier: MIT */
/* The costs of the calls that Spillway makes beside the program's own. */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum event { NONE, TIMING, PLAIN, EVENT_KINDS };

struct cost {
	double host, device; /* us per launch */
};

static struct cost cost_of_launch(CUstream on, enum event kind)
{
	int count = short_form ? 200 : 4000;
	CUevent begin = NULL, end = NULL, each = NULL;
	CUfunction nothing = gpu_kernel_of(KERNELS, "nothing");
	float ms = 0;

	ATTEMPT(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	ATTEMPT(cuEventCreate(&end, CU_EVENT_DEFAULT));
	ATTEMPT(cuEventCreate(&each, kind == PLAIN ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
	for (int i = 0; i < 200; i++)
		ATTEMPT(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, on, NULL, NULL));
	ATTEMPT(cuStreamSynchronize(on));
	ATTEMPT(cuEventRecord(begin, on));
	double start = program_now_ms();
	for (int i = 0; i < count; i++) {
		ATTEMPT(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, on, NULL, NULL));
		if (kind != NONE)
			ATTEMPT(cuEventRecord(each, on));
	}
	double took = program_now_ms() - start;
	ATTEMPT(cuEventRecord(end, on));
	ATTEMPT(cuStreamSynchronize(on));
	ATTEMPT(cuEventElapsedTime(&ms, begin, end));
	return (struct cost){took * 1e3 / count, (double)ms * 1e3 / count};
}

static void ask_events(const struct question *q)
{
	struct cost own[EVENT_KINDS], legacy[EVENT_KINDS];

	for (enum event kind = 0; kind < EVENT_KINDS; kind++) {
		own[kind] = cost_of_launch(stream, kind);
		legacy[kind] = cost_of_launch(CU_STREAM_LEGACY, kind);
	}
	if (not_asked(q))
		return;
	answer(
	    q->name, legacy[TIMING].host - legacy[NONE].host < 0.5 ? "cheap" : "dear",
	    "us of a launch, host/device: own stream %.2f/%.2f, with a timing event %.2f/%.2f, a "
	    "plain one %.2f/%.2f; legacy %.2f/%.2f, timing %.2f/%.2f, plain %.2f/%.2f",
	    own[NONE].host, own[NONE].device, own[TIMING].host, own[TIMING].device, own[PLAIN].host,
	    own[PLAIN].device, legacy[NONE].host, legacy[NONE].device, legacy[TIMING].host,
	    legacy[TIMING].device, legacy[PLAIN].host, legacy[PLAIN].device);
}

static CUevent recorded;

static void get_info(void)
{
	size_t available, total;

	gpu.cuMemGetInfo(&available, &total);
}
static void query_own(void)
{
	gpu.cuStreamQuery(stream);
}
static void query_legacy(void)
{
	gpu.cuStreamQuery(CU_STREAM_LEGACY);
}
static void query_event(void)
{
	gpu.cuEventQuery(recorded);
}
static void wait_idle(void)
{
	gpu.cuCtxSynchronize();
}
static void push_and_pop(void)
{
	CUcontext popped;

	gpu.cuCtxPushCurrent(context);
	gpu.cuCtxPopCurrent(&popped);
}
static void get_current(void)
{
	CUcontext current;

	gpu.cuCtxGetCurrent(&current);
}

/* us per call */
static double cost_of(void (*call)(void), int count)
{
	call();
	double start = program_now_ms();
	for (int i = 0; i < count; i++)
		call();
	return (program_now_ms() - start) * 1e3 / count;
}

static void ask_memory_info(const struct question *q)
{
	double us = cost_of(get_info, 200);

	answer(q->name, us < 50 ? "cheap" : "dear", "%.2f us", us);
}

static void ask_query_legacy(const struct question *q)
{
	double us = cost_of(query_legacy, 500), idle = cost_of(wait_idle, 500);

	answer(q->name, us < 20 ? "cheap" : "dear",
	       "us: cuStreamQuery of the legacy stream %.2f, cuCtxSynchronize when idle %.2f", us,
	       idle);
}

static void ask_calls(const struct question *q)
{
	ATTEMPT(cuEventCreate(&recorded, CU_EVENT_DEFAULT));
	ATTEMPT(cuEventRecord(recorded, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	if (not_asked(q))
		return;
	answer(
	    q->name, "figures",
	    "us: cuStreamQuery of an own stream %.3f, cuEventQuery %.3f, push and pop of a context "
	    "%.3f, cuCtxGetCurrent %.3f",
	    cost_of(query_own, 500), cost_of(query_event, 500), cost_of(push_and_pop, 500),
	    cost_of(get_current, 500));
}

struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned instance, compute_instance;
};
static struct {
	int (*init)(void);
	int (*by_index)(unsigned, void **);
	int (*running)(void *, unsigned *, struct nvml_process *);
	void *device;
} nvml;
enum { MOST_PROCESSES = 64 };
static struct nvml_process processes[MOST_PROCESSES];
static unsigned process_count;
static int nvml_answer;

static void query_processes(void)
{
	process_count = MOST_PROCESSES;
	nvml_answer = nvml.running(nvml.device, &process_count, processes);
}

static void *find(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static void ask_nvml(const struct question *q)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	void *found[] = {find(library, "nvmlInit_v2"),
	                 find(library, "nvmlDeviceGetHandleByIndex_v2"),
	                 find(library, "nvmlDeviceGetComputeRunningProcesses_v3")};
	bool known = false;

	memcpy(&nvml.init, &found[0], sizeof(found[0]));
	memcpy(&nvml.by_index, &found[1], sizeof(found[1]));
	memcpy(&nvml.running, &found[2], sizeof(found[2]));
	if (!nvml.init || !nvml.by_index || !nvml.running) {
		answer(q->name, "not asked", "no NVML, or an old one");
		return;
	}
	double start = program_now_ms();
	int initialised = nvml.init();
	double init_ms = program_now_ms() - start;
	if (initialised != 0 || nvml.by_index(0, &nvml.device) != 0) {
		answer(q->name, "not asked", "NVML does not open the device (%d)", initialised);
		return;
	}
	double us = cost_of(query_processes, 20);
	for (unsigned i = 0; i < process_count && i < MOST_PROCESSES; i++)
		known |= processes[i].pid == (unsigned)getpid();
	answer(q->name, known ? "known" : "not known",
	       "init %.1f ms, running processes %.0f us (answer %d, %u processes)", init_ms, us,
	       nvml_answer, process_count);
}

const struct question cost_questions[] = {
    {.name = "event_costs",
     .risk = "11",
     .asks = "What does a timing event after each launch cost in the default stream?",
     .counted_on = "cheap",
     .then = "a paced launch in the default stream has an event of its own",
     .otherwise = "treat the default stream as any other where no blocking stream exists",
     .ask = ask_events},
    {.name = "memory_info_costs",
     .risk = "14",
     .asks = "What does cuMemGetInfo cost?",
     .counted_on = "cheap",
     .then = "the measured overhead is asked for around calls that may grow it",
     .otherwise = "ask at most every 50 ms",
     .ask = ask_memory_info},
    {.name = "legacy_query_costs",
     .risk = "12",
     .asks = "What does a query of the legacy stream cost, beside a wait for an idle context?",
     .counted_on = "cheap",
     .then = "whether anything runs is asked by it, or by the wait",
     .otherwise = "glance less often",
     .ask = ask_query_legacy},
    {.name = "call_costs",
     .risk = "-",
     .asks = "What do the other calls cost that Spillway makes on its own?",
     .then = "hooks make them where the books cannot tell",
     .ask = ask_calls},
    {.name = "nvml_knows_us",
     .risk = "21",
     .asks =
         "Does NVML list this process by the number that it has here, and what does asking cost?",
     .counted_on = "known",
     .then = "what contexts take is charged by NVML's word",
     .otherwise = "in this container contexts' memory is charged by the device's total",
     .ask = ask_nvml},
    {0},
};
