/* SPDX-License-Identifier: MIT */
/*
 * cuLink*: two PTX files that call each other become one module, and a missing function is named.
 */
#include "tests/clients/samples/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 500, LOG_BYTES = 1024 };

static void add_file(CUlinkState link, const char *file)
{
	char *text = program_read_beside(file);

	CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, file, 0, NULL, NULL));
	free(text);
}

int main(void)
{
	float vector[COUNT], result[COUNT];
	unsigned count = COUNT, calls = 0;
	CUlinkState link;
	CUmodule module;
	void *image;
	size_t image_size;

	sample_open(NULL);
	CU(cuLinkCreate(0, NULL, NULL, &link));
	add_file(link, "link_scale.ptx");
	add_file(link, "link_shape.ptx");
	CU(cuLinkComplete(link, &image, &image_size));
	sample_check(image && image_size > 0, "two inputs linked");
	CU(cuModuleLoadData(&module, image));
	/* The image is the link's, and a loaded module needs it no more. */
	CU(cuLinkDestroy(link));

	for (size_t i = 0; i < COUNT; i++)
		vector[i] = (float)(sample_random() % 64) / 8;
	CUdeviceptr device_vector = sample_upload(vector, sizeof(vector));
	CUdeviceptr device_calls = sample_upload(&calls, sizeof(calls));
	CLIENT_LAUNCH(client_function(module, "apply_shape"), (COUNT + 127) / 128, 1, 128, NULL,
	              &device_vector, &count);
	CLIENT_LAUNCH(client_function(module, "read_calls"), 1, 1, 1, NULL, &device_calls);
	sample_download(result, device_vector, sizeof(result));
	sample_download(&calls, device_calls, sizeof(calls));
	size_t wrong = 0;
	for (size_t i = 0; i < COUNT; i++) {
		float x = vector[i] + 1;
		wrong += result[i] != (x * x - 0.5f) * 3 + 0.25f;
	}
	sample_check(wrong == 0, "each file has its own helper and its own offset");
	sample_check(calls == COUNT, "both files see one counter: %u", calls);

	CUdeviceptr global;
	size_t bytes;
	CU(cuModuleGetGlobal(&global, &bytes, module, "shape_calls"));
	sample_download(&calls, global, sizeof(calls));
	sample_check(bytes == sizeof(calls) && calls == COUNT, "and the host finds it by name");
	client_free(&device_vector, sizeof(vector));
	client_free(&device_calls, sizeof(calls));
	CU(cuModuleUnload(module));

	/* Half a program does not link, and the log says what is missing. */
	char log[LOG_BYTES] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
	CU(cuLinkCreate(2, options, values, &link));
	add_file(link, "link_scale.ptx");
	CUresult result_of_half = cuLinkComplete(link, &image, &image_size);
	sample_check(result_of_half != CUDA_SUCCESS, "one input alone does not link");
	sample_check(strstr(log, "shape") != NULL, "the log names what is missing");
	CU(cuLinkDestroy(link));
	return sample_end();
}
