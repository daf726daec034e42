/* What the test programs share; see client.h. */
#include "tests/clients/client.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static size_t bytes_now, bytes_peak;

const char *client_error_name(CUresult result)
{
	static char unnamed[32];
	const char *name = NULL;

	if (cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
		return name;
	snprintf(unnamed, sizeof(unnamed), "CUresult %d", (int)result);
	return unnamed;
}

void client_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

void client_check(CUresult result, const char *call, const char *file, int line)
{
	if (result != CUDA_SUCCESS)
		client_die("%s:%d: %s: %s", file, line, call, client_error_name(result));
}

CUdevice client_open_device(char name[256])
{
	CUdevice device;
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDeviceGetName(name, 256, device));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	return device;
}

char *client_read_beside(const char *file)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
	if (length <= 0 || (size_t)length >= sizeof(path))
		client_die("cannot tell where this program lies: %s", strerror(errno));
	while (length > 0 && path[length - 1] != '/')
		length--;
	if (snprintf(path + length, sizeof(path) - length, "%s", file) >=
	    (int)(sizeof(path) - length))
		client_die("%s: the path is too long", file);

	FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	/* No file holds a NUL, so this reads it whole; an empty file is as bad as none. */
	if (!stream || getdelim(&text, &size, '\0', stream) < 0)
		client_die("%s: %s", path, errno ? strerror(errno) : "empty");
	fclose(stream);
	return text;
}

CUmodule client_load_module(const char *ptx_file)
{
	char *ptx = client_read_beside(ptx_file);
	CUmodule module;

	CU(cuModuleLoadData(&module, ptx));
	free(ptx);
	return module;
}

CUfunction client_function(CUmodule module, const char *name)
{
	CUfunction function;
	CUresult result = cuModuleGetFunction(&function, module, name);

	if (result != CUDA_SUCCESS)
		client_die("kernel %s: %s", name, client_error_name(result));
	return function;
}

CUdeviceptr client_alloc(size_t size)
{
	CUdeviceptr pointer;
	CUresult result = cuMemAlloc(&pointer, size);

	if (result != CUDA_SUCCESS)
		client_die("cuMemAlloc of %zu bytes, with %zu in use: %s", size, bytes_now,
		           client_error_name(result));
	bytes_now += size;
	if (bytes_peak < bytes_now)
		bytes_peak = bytes_now;
	return pointer;
}

void client_free(CUdeviceptr *pointer, size_t size)
{
	if (!*pointer)
		return;
	CU(cuMemFree(*pointer));
	*pointer = 0;
	bytes_now -= size;
}

size_t client_peak_bytes(void)
{
	return bytes_peak;
}

long client_number(const char *option, const char *text, long min, long max)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		client_die("--%s=%s: expected a whole number from %ld to %ld", option, text, min,
		           max);
	return value;
}

double client_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
