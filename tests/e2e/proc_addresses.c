/* SPDX-License-Identifier: MIT */
/*
 * proc_addresses [--first] TABLE: asks cuGetProcAddress for every (name, version, flags) of the
 * table and prints "name version flags RESULT STATUS owner symbol": owner shim or driver, symbol
 * the one it exports at that very address, or "- -" where there was no answer. A driver from before
 * CUDA 12 has the first form of the call alone, which gives no STATUS ("99"); --first asks by that
 * form in any case. Exit status 3: the driver has neither form. proc_addresses --nulls: the answers
 * of both forms where parameters are NULL, and the outputs that they leave untouched.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Returns whether a file is the shim, by dladdr's own string, which lives as long as the library.
 */
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

static CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static CUresult (*first_get)(const char *, void **, int, cuuint64_t);

static void print_nulls(void)
{
	static const char *const names[] = {"cuMemAlloc", "cuDeviceGetName", "cuNoSuchThing", "",
	                                    NULL};
	static const int versions[] = {3020, 0, -1};
	char untouched;

	for (int i = 0; i < 5; i++) {
		for (int j = 0; j < 3; j++) {
			void *function = &untouched;
			CUdriverProcAddressQueryResult status = 99;

			printf("%s@%d: first %d", names[i] ? names[i] : "NULL", versions[j],
			       (int)first_get(names[i], NULL, versions[j], 0));
			printf(" %d", (int)first_get(names[i], &function, versions[j], 0));
			printf(" %s", function == &untouched ? "untouched" : "given");
			printf(" second %d", (int)get(names[i], NULL, versions[j], 0, &status));
			printf(" status %d", (int)status);
			function = &untouched;
			printf(" %d", (int)get(names[i], &function, versions[j], 0, NULL));
			printf(" %s ", function == &untouched ? "untouched" : "given");
			print_owner(function == &untouched ? NULL : function);
		}
	}
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	bool first = argc > 1 && strcmp(argv[1], "--first") == 0;
	FILE *table;
	char line[512], name[128];

	if (!library || argc != 2 + first)
		return 2;
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	*(void **)&first_get = dlsym(library, "cuGetProcAddress");
	if (!get && !first_get)
		return 3;
	if (strcmp(argv[1], "--nulls") == 0) {
		print_nulls();
		return 0;
	}
	table = fopen(argv[1 + first], "r");
	if (!table)
		return 2;
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
		if (get && !first)
			result = get(name, &function, version, (cuuint64_t)flags, &status);
		else
			result = first_get(name, &function, version, (cuuint64_t)flags);
		printf("%s %d %d %d %d ", *name ? name : "''", version, flags, (int)result,
		       (int)status);
		print_owner(function);
	}
	fclose(table);
	return 0;
}
