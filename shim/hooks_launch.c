/* SPDX-License-Identifier: MIT */
/*
 * Launches: counted, and held back where a share says so.
 *
 * Budget of an unpaced launch: no system call, no lock, no allocation, one predictable branch.
 */
#include "shim/sampled.h"

#include "core/job/job.h"
#include "core/memory/uses/graph_memory.h"
#include "shim/track.h"

/* Counts the threads of a grid, all together. */
#define THREADS(gx, gy, gz, bx, by, bz) ((uint64_t)(gx) * (gy) * (gz) * (bx) * (by) * (bz))
#define GRID_THREADS                    THREADS(gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ)

static uint64_t launch_threads_of(const CUlaunchConfig *c)
{
	return c ? THREADS(c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
	                   c->blockDimZ)
	         : 0;
}

/* --- what was launched is looked at, apart from the hooks, because that is rare --- */

static __attribute__((noinline)) void sampled_launch(CUfunction function, void **parameters,
                                                     void **extra)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(launched, function, parameters, extra);
}

static __attribute__((noinline)) void sampled_launches(const CUDA_LAUNCH_PARAMS *launches,
                                                       unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		sampled_launch(launches[i].function, launches[i].kernelParams, NULL);
}

static __attribute__((noinline)) void sampled_blind_launch(void)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	placement_tell(launched_blindly);
}

static __attribute__((noinline)) void sampled_graph(CUgraphExec graph)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(graph_launched, graph);
}

/* --- hooks --- */

/* The slow path around any form of launch; call is the driver's own call with its arguments. */
#define HELD_BACK(kind_, stream_, what, threads_, given, more, call) \
	({                                                           \
		KEEP_ERRNO;                                          \
		struct job_launch launch_;                           \
		launch_.kind = (kind_);                              \
		launch_.stream = (stream_);                          \
		launch_.function = HANDLE(what);                     \
		launch_.threads = (threads_);                        \
		launch_.parameters = (given);                        \
		launch_.extra = (more);                              \
		launch_.result = job_begin_launch(&launch_);         \
		if (launch_.result == CUDA_SUCCESS)                  \
			launch_.result = PASSING_GATE(call);         \
		job_end_launch(&launch_);                            \
		launch_.result;                                      \
	})

/* The plain path: one counter, the gate, the driver. */
#define COUNTED(kind, call)                                             \
	({                                                              \
		struct counters *counted_ = job_launch_statistics();    \
		PASSING_GATE((job_count_launch(counted_, kind), call)); \
	})

/* Said here, too: the compiler loses it on the way. */
#define IS_ACTED_ON __builtin_expect(job_launch_has_actions(), 0)

/* look: at a sample of parameters; sampled.h. */
#define LAUNCH(stream, function, threads, parameters, extra, call)                                 \
	SAMPLED(IS_ACTED_ON                                                                        \
	            ? HELD_BACK(LAUNCH_KERNEL, stream, function, threads, parameters, extra, call) \
	            : COUNTED(LAUNCH_KERNEL, call),                                                \
	        sampled_launch(function, parameters, extra))
#define BLIND_LAUNCH(stream, what, threads, call, look)                                        \
	SAMPLED(IS_ACTED_ON ? HELD_BACK(LAUNCH_BLIND, stream, what, threads, NULL, NULL, call) \
	                    : COUNTED(LAUNCH_KERNEL, call),                                    \
	        look)
/* Memory that its nodes allocate is the driver's with the first launch. */
#define GRAPH_LAUNCH(stream, call)                                                                 \
	({                                                                                         \
		CUresult graph_ = SAMPLED(                                                         \
		    IS_ACTED_ON ? HELD_BACK(LAUNCH_GRAPH, stream, hGraphExec, 0, NULL, NULL, call) \
		                : COUNTED(LAUNCH_GRAPH, call),                                     \
		    sampled_graph(hGraphExec));                                                    \
		if (graph_memory_is_expected() && job_is_active())                                 \
			graph_memory_settle_all();                                                 \
		graph_;                                                                            \
	})

static CUstream stream_of(const CUlaunchConfig *config)
{
	return config ? config->hStream
	              : NULL; /* a missing configuration is the driver's to judge */
}

/* Hooks a launch of `f` with `kernelParams`; both of its forms. */
#define LAUNCHES(symbol, stream, threads, extra, ...)                  \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                    \
	{                                                              \
		return LAUNCH(stream, f, threads, kernelParams, extra, \
		              FORWARD(symbol, __VA_ARGS__));           \
	}
#define LAUNCHES_2(symbol, other, stream, threads, extra, ...)        \
	LAUNCHES(symbol, LEGACY(stream), threads, extra, __VA_ARGS__) \
	LAUNCHES(other, PER_THREAD(stream), threads, extra, __VA_ARGS__)
#define GRID                                                                                 \
	(unsigned int, gridDimX), (unsigned int, gridDimY), (unsigned int, gridDimZ),        \
	    (unsigned int, blockDimX), (unsigned int, blockDimY), (unsigned int, blockDimZ), \
	    (unsigned int, sharedMemBytes)

LAUNCHES_2(cuLaunchKernel, cuLaunchKernel_ptsz, hStream, GRID_THREADS, extra, (CUfunction, f), GRID,
           (CUstream, hStream), (void **, kernelParams), (void **, extra))
LAUNCHES_2(cuLaunchKernelEx, cuLaunchKernelEx_ptsz, stream_of(config), launch_threads_of(config),
           extra, (const CUlaunchConfig *, config), (CUfunction, f), (void **, kernelParams),
           (void **, extra))
LAUNCHES_2(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, hStream, GRID_THREADS, NULL,
           (CUfunction, f), GRID, (CUstream, hStream), (void **, kernelParams))

HOOK(cuLaunch, CUfunction f)
{
	return BLIND_LAUNCH(CU_STREAM_LEGACY, f, 0, REAL(cuLaunch)(f), sampled_blind_launch());
}

HOOK(cuLaunchGrid, CUfunction f, int grid_width, int grid_height)
{
	return BLIND_LAUNCH(CU_STREAM_LEGACY, f, (uint64_t)grid_width * (uint64_t)grid_height,
	                    REAL(cuLaunchGrid)(f, grid_width, grid_height), sampled_blind_launch());
}

HOOK(cuLaunchGridAsync, CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	return BLIND_LAUNCH(LEGACY(hStream), f, (uint64_t)grid_width * (uint64_t)grid_height,
	                    REAL(cuLaunchGridAsync)(f, grid_width, grid_height, hStream),
	                    sampled_blind_launch());
}

HOOK(cuGraphLaunch, CUgraphExec hGraphExec, CUstream hStream)
{
	return GRAPH_LAUNCH(LEGACY(hStream), REAL(cuGraphLaunch)(hGraphExec, hStream));
}

HOOK(cuGraphLaunch_ptsz, CUgraphExec hGraphExec, CUstream hStream)
{
	return GRAPH_LAUNCH(PER_THREAD(hStream), REAL(cuGraphLaunch_ptsz)(hGraphExec, hStream));
}

/* Kernels on several devices by one call: held back and counted once, by the current context. */
HOOK(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *launchParamsList,
     unsigned int numDevices, unsigned int flags)
{
	return BLIND_LAUNCH(
	    CU_STREAM_LEGACY, launchParamsList, numDevices,
	    REAL(cuLaunchCooperativeKernelMultiDevice)(launchParamsList, numDevices, flags),
	    sampled_launches(launchParamsList, numDevices));
}
