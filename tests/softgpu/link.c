/* SPDX-License-Identifier: MIT */
/* The linker calls: PTX goes in, by text or from fat binaries, and comes out as one PTX text. */
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/fatbin.h"
#include "tests/softgpu/link_text.h"
#include "tests/softgpu/module.h"

struct link_state {
	struct handle handle;
	struct jit jit; /* the caller keeps its buffers until the link is destroyed */
	char **texts;
	size_t count;
	char *linked; /* NULL until completed */
};

static CUresult create(const char *call, unsigned int count, const CUjit_option *options,
                       void **values, CUlinkState *out)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct jit jit;
	result = out ? jit_begin(&jit, count, options, values) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct link_state *link = calloc(1, sizeof(*link));
	if (!link || !handle_add(&link->handle, HANDLE_LINK)) {
		free(link);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	link->jit = jit;
	*out = (CUlinkState)link;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
                             CUlinkState *out)
{
	return create(__func__, count, options, values, out);
}

EXPORT CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
                                CUlinkState *out)
{
	return create(__func__, count, options, values, out);
}

/* Enters a call about a link in progress. */
static CUresult enter_link(const char *call, CUlinkState handle, struct link_state **link)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	*link = handle_find(handle, HANDLE_LINK);
	return *link ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

/* The PTX of an input, as text of its own. */
static CUresult input_text(CUjitInputType type, const char *data, size_t size, char **text)
{
	if (type == CU_JIT_INPUT_FATBINARY)
		return image_text(data, text);
	const char *runtime = type == CU_JIT_INPUT_LIBRARY ? device_runtime_text(data, size) : NULL;
	if (type != CU_JIT_INPUT_PTX && !runtime)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	*text = runtime ? strdup(runtime) : strndup(data, size);
	if (!*text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (strstr(*text, ".version"))
		return CUDA_SUCCESS;
	free(*text);
	return CUDA_ERROR_INVALID_PTX;
}

static CUresult add(const char *call, CUlinkState handle, CUjitInputType type, const char *data,
                    size_t size)
{
	struct link_state *link;
	CUresult result = enter_link(call, handle, &link);
	if (result != CUDA_SUCCESS)
		return result;
	char *text;
	if (!data || size == 0 || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || link->linked)
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = input_text(type, data, size, &text);
	if (result != CUDA_SUCCESS)
		return leave(result);
	char **texts = realloc(link->texts, (link->count + 1) * sizeof(*texts));
	if (!texts) {
		free(text);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	link->texts = texts;
	link->texts[link->count++] = text;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t size,
                                 const char *name, unsigned int count, CUjit_option *options,
                                 void **values)
{
	(void)name, (void)count, (void)options, (void)values;
	return add(__func__, link, type, data, size);
}

EXPORT CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t size,
                              const char *name, unsigned int count, CUjit_option *options,
                              void **values)
{
	(void)name, (void)count, (void)options, (void)values;
	return add(__func__, link, type, data, size);
}

static CUresult add_file(const char *call, CUlinkState link, CUjitInputType type, const char *path)
{
	size_t size;
	char *text = read_text(path, &size);
	if (!text)
		return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	CUresult result = add(call, link, type, text, size);
	free(text);
	return result;
}

EXPORT CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char *path,
                                 unsigned int count, CUjit_option *options, void **values)
{
	(void)count, (void)options, (void)values;
	return add_file(__func__, link, type, path);
}

EXPORT CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path,
                              unsigned int count, CUjit_option *options, void **values)
{
	(void)count, (void)options, (void)values;
	return add_file(__func__, link, type, path);
}

EXPORT CUresult cuLinkComplete(CUlinkState handle, void **image, size_t *size)
{
	struct link_state *link;
	CUresult result = enter_link(__func__, handle, &link);
	if (result != CUDA_SUCCESS)
		return result;
	char log[256] = "";
	if (!image || !size || link->count == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	/* A driver answers UNKNOWN when names do not resolve (seen in numba's issue 7159). */
	if (!link->linked &&
	    !link_texts((const char *const *)link->texts, link->count, link->jit.max_registers,
	                &link->linked, log, sizeof(log))) {
		say("%s: %s", __func__, log);
		jit_end(&link->jit, log, "");
		return leave(CUDA_ERROR_UNKNOWN);
	}
	jit_end(&link->jit, "", "");
	*image = link->linked;
	*size = strlen(link->linked) + 1;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLinkDestroy(CUlinkState handle)
{
	struct link_state *link;
	CUresult result = enter_link(__func__, handle, &link);
	if (result != CUDA_SUCCESS)
		return result;
	handle_remove(&link->handle);
	for (size_t i = 0; i < link->count; i++)
		free(link->texts[i]);
	free(link->texts);
	free(link->linked);
	free(link);
	return leave(CUDA_SUCCESS);
}
