/* SPDX-License-Identifier: MIT */
/* The samples share this; see sample.h. */
#include "tests/clients/samples/sample.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static CUdevice device;
static bool opened;
static unsigned passed_count, failed_count;

CUmodule sample_open(const char *ptx_file)
{
	char name[256];

	device = client_open_device(name);
	opened = true;
	return ptx_file ? client_load_module(ptx_file) : NULL;
}

void sample_check(bool passed, const char *what, ...)
{
	va_list args;

	passed ? passed_count++ : failed_count++;
	fputs(passed ? "PASS " : "FAIL ", stdout);
	va_start(args, what);
	vprintf(what, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void sample_expect(CUresult expected, CUresult got, const char *call)
{
	if (got == expected) {
		sample_check(true, "%s: %s", call, client_error_name(expected));
	} else {
		sample_check(false, "%s: expected CUresult %d", call, (int)expected);
		program_die("%s: %s", call, client_error_name(got));
	}
}

void sample_skip(const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	vprintf(reason, args);
	va_end(args);
	putchar('\n');
	exit(77);
}

void sample_needs(CUresult result, const char *call)
{
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		sample_skip("not supported by this driver: %s", call);
	if (result != CUDA_SUCCESS)
		program_die("%s: %s", call, client_error_name(result));
}

int sample_end(void)
{
	if (opened)
		client_close_device(device);
	printf("%u passed, %u failed\n", passed_count, failed_count);
	return failed_count || !passed_count;
}

void *sample_memory(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		program_die("no host memory for %zu bytes", bytes);
	return memory;
}

uint32_t sample_random(void)
{
	static uint32_t state = 2463534242u;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

float sample_random_float(void)
{
	return (float)(sample_random() >> 8) / 8388608.0f - 1.0f;
}

CUdeviceptr sample_upload(const void *bytes, size_t size)
{
	CUdeviceptr pointer = client_alloc(size);

	CU(cuMemcpyHtoD(pointer, bytes, size));
	return pointer;
}

void sample_download(void *bytes, CUdeviceptr pointer, size_t size)
{
	CU(cuMemcpyDtoH(bytes, pointer, size));
}
