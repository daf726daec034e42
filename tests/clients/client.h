/* SPDX-License-Identifier: MIT */
/*
 * The clients share this: checked driver calls, modules from the PTX beside the program, and
 * counted device memory. Every failure is named on stderr and ends the program with status 1.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <cuda.h>
#include <stddef.h>

/* CU(cuMemAlloc(&p, 4096)): the call succeeds or the program ends. */
#define CU(call) client_check((call), #call, __FILE__, __LINE__)
void client_check(CUresult result, const char *call, const char *file, int line);

/* "CUDA_ERROR_OUT_OF_MEMORY", or "CUresult 12345" for what the driver cannot name (one static
 * buffer). */
const char *client_error_name(CUresult result);

/* Device 0 and its primary context, made current. The name is the device's. */
CUdevice client_open_device(char name[256]);
void client_close_device(CUdevice device);

/* The file lies beside the program. */
CUmodule client_load_module(const char *ptx_file);
CUfunction client_function(CUmodule module, const char *name);

/* Launches a one-dimensional or two-dimensional grid: the arguments are pointers to the kernel's.
 */
#define CLIENT_LAUNCH(function, grid_x, grid_y, threads, stream, ...)            \
	CU(cuLaunchKernel(function, grid_x, grid_y, 1, threads, 1, 1, 0, stream, \
	                  (void *[]){__VA_ARGS__}, NULL))

/* Device memory, counted as asked for. free tolerates 0 and sets the pointer to it. */
CUdeviceptr client_alloc(size_t size);
void client_free(CUdeviceptr *pointer, size_t size);
size_t client_peak_bytes(void);

#endif
