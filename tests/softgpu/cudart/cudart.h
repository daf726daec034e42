/* SPDX-License-Identifier: MIT */
/*
 * A small libcudart over any driver called libcuda.so.1, so that programs of nvcc -cudart shared
 * run where NVIDIA's own, which needs the driver's private tables, does not. Each source is
 * compiled twice: for libcudart.so.13, and with CUDART_MAJOR=12 for libcudart.so.12.
 *
 * driver   the driver's functions, each asked for by name and version as libcudart asks
 * binary   one fat binary that the program registered; a CUlibrary once something of it is used
 * entity   a kernel or variable of a binary, known by the address of its namesake on the host
 * twin     the same call for programs of -default-stream per-thread: name_ptsz, name_ptds
 *
 * cudaError_t and CUresult agree in every value that the driver answers, so it passes through.
 */
#ifndef SOFTGPU_CUDART_H
#define SOFTGPU_CUDART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL
#if CUDART_MAJOR == 12
#include "tests/softgpu/cudart/cuda12.h"
#endif
#include <cuda_runtime_api.h>

/* The version that this library says it is. */
#if CUDART_MAJOR == 12
#define RUNTIME_VERSION 12090
#else
#define RUNTIME_VERSION CUDART_VERSION
#endif

#define EXPORT __attribute__((visibility("default")))

#define MAX_DEVICES 64

/* Which default stream a call means, and with it which of the driver's functions it uses. */
enum twin { LEGACY, PER_THREAD };

struct driver {
#define CALL(name, version, like)                         __typeof__(like) *name;
#define CALL_ON_STREAM(name, version, twin_version, like) __typeof__(like) *name[2];
#include "tests/softgpu/cudart/requests.def"
#undef CALL
#undef CALL_ON_STREAM
};

extern struct driver driver;

/* Opens and initialises the driver once; cudaSuccess or why it cannot be used. */
int open_driver(void);
/* The same, and makes a context current: the thread's device's primary one when there is none. */
int enter(void);
/* Keeps an error for cudaGetLastError(). */
cudaError_t finish(int error);
/* The error that cudaGetLastError() would answer now. */
cudaError_t pending_error(void);

/* The body of most functions: enters, calls the driver, keeps the error. */
#define RUN(call)                             \
	do {                                  \
		int error_ = enter();         \
		if (error_ == cudaSuccess)    \
			error_ = (int)(call); \
		return finish(error_);        \
	} while (0)

/*
 * Exports NAME and its twin around NAME_on(twin, ...), which works on either. The twin's name ends
 * in _ptsz for functions that have a stream among their parameters, in _ptds for others.
 */
#define EXPORT_TWINS(name, suffix, params, ...)            \
	EXPORT cudaError_t name params                     \
	{                                                  \
		return name##_on(LEGACY, __VA_ARGS__);     \
	}                                                  \
	EXPORT cudaError_t name##suffix params;            \
	EXPORT cudaError_t name##suffix params             \
	{                                                  \
		return name##_on(PER_THREAD, __VA_ARGS__); \
	}

/* Calls that hand a stream and their parameters to the driver's call of the like name. */
#define ON_STREAM(name, call, params, ...)                          \
	static cudaError_t name##_on(enum twin twin, PARAMS params) \
	{                                                           \
		RUN(driver.call[twin](__VA_ARGS__));                \
	}                                                           \
	EXPORT_TWINS(name, _ptsz, params, __VA_ARGS__)
#define PARAMS(...) __VA_ARGS__

/* device.c: the primary context of a device, made when it is not there yet. */
int primary_context(int device, CUcontext *context);

/* memory.c: a place in the driver's terms. */
CUmemLocation location_of(struct cudaMemLocation location);

/* copy.c: a copy of boxes in the driver's terms. */
int describe_3d(CUDA_MEMCPY3D *what, const struct cudaMemcpy3DParms *parms);

/* registry.c: what the program registered, by the host's address of it. */
int kernel_of(const void *host, CUkernel *kernel);
int variable_of(const void *host, CUdeviceptr *address, size_t *size);

#endif
