/*
 * proc_addresses TABLE: asks cuGetProcAddress for every (name, version, flags) of the table and prints
 * "name version flags RESULT STATUS owner symbol": owner shim or driver, symbol the one it exports at that
 * very address, or "- -" where there was no answer.
 * A driver from before CUDA 12 has the first form of the call alone, which gives no STATUS ("99").
 * Exit status 3: the driver has neither form.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the file an address is in; by dladdr's own string, which lives as long as the library. */
static bool is_shim(const char *file)
{
	static const char *last;
	static bool answer;
	char path[PATH_MAX];

	if (file != last)
		answer = realpath(file, path) && strstr(path, "libspillway");
	last = file;
	return answer;
}

static void print_owner(void *function)
{
	Dl_info info;

	if (!function || !dladdr(function, &info))
		printf("- -\n");
	else
		printf("%s %s\n", is_shim(info.dli_fname) ? "shim" : "driver",
		       info.dli_saddr == function && info.dli_sname ? info.dli_sname : "?");
}

int main(int argc, char **argv)
{
	CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*old_get)(const char *, void **, int, cuuint64_t);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	FILE *table = argc == 2 ? fopen(argv[1], "r") : NULL;
	char line[512], name[128];

	if (!library || !table)
		return 2;
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	*(void **)&old_get = dlsym(library, "cuGetProcAddress");
	if (!get && !old_get)
		return 3;
	while (fgets(line, sizeof(line), table)) {
		int version, flags, fields;
		void *function = NULL;
		CUdriverProcAddressQueryResult status = 99;
		CUresult result;

		if (line[0] == '#')
			continue;
		name[0] = '\0'; /* libcudart asks for the empty name too */
		fields = line[0] == '\t' ? 1 + sscanf(line, "%d %d", &version, &flags)
		                         : sscanf(line, "%127[^\t] %d %d", name, &version, &flags);
		if (fields != 3)
			return 2;
		if (get)
			result = get(name, &function, version, (cuuint64_t)flags, &status);
		else
			result = old_get(name, &function, version, (cuuint64_t)flags);
		printf("%s %d %d %d %d ", *name ? name : "''", version, flags, (int)result,
		       (int)status);
		print_owner(function);
	}
	fclose(table);
	return 0;
}
