/* SPDX-License-Identifier: MIT */
/* cuLogs*: the driver's messages reach callbacks, buffers and files. */
#include "tests/softgpu/test.h"

static const char broken[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry "
                             "wrong()\n{\n	frobnicate;\n}\n";

struct seen {
	int calls;
	size_t length;
	char last[600];
};

static void see(void *data, CUlogLevel level, char *message, size_t length)
{
	struct seen *seen = data;
	int version;
	CHECK(level == CU_LOG_LEVEL_ERROR && strlen(message) == length);
	seen->calls++;
	seen->length = length;
	snprintf(seen->last, sizeof(seen->last), "%s", message);
	OK(cuDriverGetVersion(&version)); /* the driver can be called */
}

/* Has the driver say one thing, which names frobnicate. */
static void provoke(void)
{
	CUmodule module;
	CHECK(cuModuleLoadData(&module, broken) != CUDA_SUCCESS);
}

static void called(void)
{
	struct seen one = {0}, two = {0};
	CUlogsCallbackHandle first, second;
	OK(cuLogsRegisterCallback(see, &one, &first)); /* before cuInit, too */
	start();
	OK(cuLogsRegisterCallback(see, &two, &second));
	provoke();
	CHECK(one.calls == 1 && two.calls == 1 && strstr(one.last, "frobnicate"));
	OK(cuLogsUnregisterCallback(first));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(first));
	provoke();
	CHECK(one.calls == 1 && two.calls == 2);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsRegisterCallback(NULL, NULL, &first));
	OK(cuLogsRegisterCallback(see, &one, NULL)); /* not what was said before */
	OK(cuCtxSynchronize());
	CHECK(one.calls == 1);
}

static void dumped(void)
{
	char all[1000], part[1000], line[1000], path[] = "/tmp/softgpu-logs-XXXXXX";
	size_t size = sizeof(all), whole;
	CUlogIterator at;
	start();
	OK(cuLogsDumpToMemory(NULL, all, &size, 0));
	CHECK(size == 0 && !all[0]);
	OK(cuLogsCurrent(&at, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsCurrent(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsCurrent(&at, 1));
	provoke();
	provoke();
	whole = sizeof(all);
	OK(cuLogsDumpToMemory(&at, all, &whole, 0));
	CHECK(whole == strlen(all) && all[whole - 1] == '\n' && strstr(all, "frobnicate"));
	size = sizeof(part);
	OK(cuLogsDumpToMemory(&at, part, &size, 0)); /* the iterator went on */
	CHECK(size == 0);
	/* Where both do not fit, the newest is there, and the first line says so. */
	size = whole;
	OK(cuLogsDumpToMemory(NULL, part, &size, 0));
	CHECK(size == strlen(part) && part[0] == '(' &&
	      strcmp(strchr(part, '\n') + 1, all + whole / 2) == 0);
	size = 5;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, part, &size, 0));
	CHECK(size == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, part, NULL, 0));
	CHECK(mkstemp(path) >= 0);
	OK(cuLogsDumpToFile(NULL, path, 0));
	FILE *file = fopen(path, "r");
	CHECK(file && fgets(line, sizeof(line), file));
	CHECK(memcmp(line, all, strlen(line)) == 0);
	fclose(file);
	unlink(path);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile(NULL, "/no/such/directory/log", 0));
	/* Of more than is kept the oldest goes. */
	static char much[64 << 10];
	for (int i = 0; i < 1000; i++)
		provoke();
	size = sizeof(much);
	OK(cuLogsDumpToMemory(&(CUlogIterator){0}, much, &size, 0));
	CHECK(much[0] == '(' && size < 26000 && size > 20000);
}

int main(void)
{
	int failed = 0;
	failed += RUN(called, "SOFTGPU_QUIET=1");
	failed += RUN(dumped, "SOFTGPU_QUIET=1");
	return failed != 0;
}
