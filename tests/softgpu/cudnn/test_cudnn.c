/* SPDX-License-Identifier: MIT */
/* The stand-in cuDNN: a handle and the version are there, and nothing else succeeds. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnSetStream(void *handle, void *stream);
int cudnnGetStream(void *handle, void **stream);
int cudnnGetProperty(int property, int *value);
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(int status);

#define X(name) int name(void);
#include "tests/softgpu/cudnn/exports.def"
#undef X

static const struct {
	const char *name;
	int (*call)(void);
} functions[] = {
#define X(name) {#name, name},
#include "tests/softgpu/cudnn/exports.def"
#undef X
};

static int failures;

static void check(int is_right, const char *what)
{
	if (is_right)
		return;
	printf("FAILED: %s\n", what);
	failures++;
}

static void check_answered(void)
{
	void *handle = NULL, *stream = NULL;
	int version[3] = {0}, other = 7;

	check(cudnnCreate(&handle) == 0 && handle, "cudnnCreate");
	check(cudnnSetStream(handle, &other) == 0, "cudnnSetStream");
	check(cudnnGetStream(handle, &stream) == 0 && stream == &other, "cudnnGetStream");
	check(cudnnDestroy(handle) == 0, "cudnnDestroy");
	for (int i = 0; i < 3; i++)
		check(cudnnGetProperty(i, &version[i]) == 0, "cudnnGetProperty");
	check(cudnnGetProperty(3, &other) == 2000 && other == 7, "an unknown property");
	check((size_t)version[0] * 10000 + (size_t)version[1] * 100 + (size_t)version[2] ==
	          cudnnGetVersion(),
	      "one version in both forms");
	check(strcmp(cudnnGetErrorString(3000), "CUDNN_STATUS_NOT_SUPPORTED") == 0,
	      "the name of \"not supported\"");
}

/* Calls each function twice, and counts what is said. */
static void check_refused(void)
{
	FILE *said = tmpfile();
	int before = dup(STDERR_FILENO), lines = 0, count = sizeof functions / sizeof *functions;
	char line[128] = "";

	dup2(fileno(said), STDERR_FILENO);
	for (int i = 0; i < 2 * count; i++)
		check(functions[i % count].call() == 3000, functions[i % count].name);
	dup2(before, STDERR_FILENO);
	rewind(said);
	while (fgets(line, sizeof line, said)) {
		check(lines < count && strstr(line, functions[lines].name) != NULL, line);
		lines++;
	}
	check(lines == count, "each function names itself once");
	fclose(said);
}

int main(void)
{
	check_answered();
	check_refused();
	return failures != 0;
}
