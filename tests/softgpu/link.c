/*
 * The linker calls. There is one kind of code here, PTX, and it is not linked: a single input comes
 * out as it went in, which is what programs do that use the linker to compile.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/module.h"

struct link_state {
	struct handle handle;
	char *text; /* the input, NUL-terminated */
	size_t size;
};

static CUresult create(const char *call, unsigned int count, const CUjit_option *options,
                       void *const *values, CUlinkState *out)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || (count && (!options || !values)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct link_state *link = calloc(1, sizeof(*link));
	if (!link || !handle_add(&link->handle, HANDLE_LINK)) {
		free(link);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
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

static CUresult add(const char *call, CUlinkState handle, CUjitInputType type, const char *data,
                    size_t size)
{
	struct link_state *link;
	CUresult result = enter_link(call, handle, &link);
	if (result != CUDA_SUCCESS)
		return result;
	if (!data || size == 0 || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (type != CU_JIT_INPUT_PTX)
		return leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
	if (link->text) {
		say("%s: more than one input is not linked", call);
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	link->text = strndup(data, size);
	if (!link->text)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	link->size = strlen(link->text) + 1;
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
	char *text = read_text(path);
	if (!text)
		return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	CUresult result = add(call, link, type, text, strlen(text));
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
	if (!image || !size || !link->text)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*image = link->text;
	*size = link->size;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLinkDestroy(CUlinkState handle)
{
	struct link_state *link;
	CUresult result = enter_link(__func__, handle, &link);
	if (result != CUDA_SUCCESS)
		return result;
	handle_remove(&link->handle);
	free(link->text);
	free(link);
	return leave(CUDA_SUCCESS);
}
