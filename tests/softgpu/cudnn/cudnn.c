/* SPDX-License-Identifier: MIT */
/*
 * The stand-in libcudnn.so.9. XLA asks for a handle and the version before it compiles any program,
 * so these functions succeed: they have no work to do. Every other function names itself once on
 * stderr and answers cuDNN's status for "not supported".
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	BAD_PARAM = 2000,
	NOT_SUPPORTED = 3000,
	MAJOR = 9,
	MINOR = 99, /* XLA wants that of its own build, 12, or a later one */
	PATCH = 0,
	CUDART = 13000,
};
/* Of cudnnGetProperty. */
enum { PROPERTY_MAJOR, PROPERTY_MINOR, PROPERTY_PATCH };

struct handle {
	void *stream;
};

static int cudnn_refuse(const char *name, int *is_said)
{
	if (!__atomic_exchange_n(is_said, 1, __ATOMIC_RELAXED) && !getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported\n", name);
	return NOT_SUPPORTED;
}

#define X(name)                                       \
	EXPORT int name(void);                        \
	EXPORT int name(void)                         \
	{                                             \
		static int is_said;                   \
                                                      \
		return cudnn_refuse(#name, &is_said); \
	}
#include "tests/softgpu/cudnn/exports.def"
#undef X

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetMaxDeviceVersion(void);
EXPORT size_t cudnnGetCudartVersion(void);
EXPORT int cudnnGetProperty(int property, int *value);
EXPORT int cudnnCreate(struct handle **handle);
EXPORT int cudnnDestroy(struct handle *handle);
EXPORT int cudnnSetStream(struct handle *handle, void *stream);
EXPORT int cudnnGetStream(struct handle *handle, void **stream);
EXPORT const char *cudnnGetErrorString(int status);
EXPORT void cudnnGetLastErrorString(char *message, size_t size);

size_t cudnnGetVersion(void)
{
	return MAJOR * 10000 + MINOR * 100 + PATCH;
}

size_t cudnnGetMaxDeviceVersion(void)
{
	return cudnnGetVersion();
}

size_t cudnnGetCudartVersion(void)
{
	return CUDART;
}

int cudnnGetProperty(int property, int *value)
{
	static const int version[] = {
	    [PROPERTY_MAJOR] = MAJOR, [PROPERTY_MINOR] = MINOR, [PROPERTY_PATCH] = PATCH};

	if (!value || property < PROPERTY_MAJOR || property > PROPERTY_PATCH)
		return BAD_PARAM;
	*value = version[property];
	return SUCCESS;
}

int cudnnCreate(struct handle **handle)
{
	if (!handle)
		return BAD_PARAM;
	*handle = calloc(1, sizeof **handle);
	return *handle ? SUCCESS : 1003; /* CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED */
}

int cudnnDestroy(struct handle *handle)
{
	free(handle);
	return SUCCESS;
}

int cudnnSetStream(struct handle *handle, void *stream)
{
	if (!handle)
		return BAD_PARAM;
	handle->stream = stream;
	return SUCCESS;
}

int cudnnGetStream(struct handle *handle, void **stream)
{
	if (!handle || !stream)
		return BAD_PARAM;
	*stream = handle->stream;
	return SUCCESS;
}

const char *cudnnGetErrorString(int status)
{
	switch (status) {
	case SUCCESS:
		return "CUDNN_STATUS_SUCCESS";
	case BAD_PARAM:
		return "CUDNN_STATUS_BAD_PARAM";
	case NOT_SUPPORTED:
		return "CUDNN_STATUS_NOT_SUPPORTED";
	}
	return "CUDNN_STATUS_INTERNAL_ERROR";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
	if (message && size)
		snprintf(message, size, "not supported by the software GPU");
}
