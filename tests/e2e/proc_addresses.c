/*
 * proc_addresses TABLE: asks cuGetProcAddress for every (name, version, flags) of the table and prints
 * "name version flags RESULT STATUS owner symbol": owner shim (symbol: offset of the function in the
 * shim, in hexadecimal) or driver (symbol: its exported name), or "- -" where there was no answer.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_owner(void *function)
{
	char file[PATH_MAX];
	Dl_info info;

	if (!function || !dladdr(function, &info) || !realpath(info.dli_fname, file))
		printf("- -\n");
	else if (strstr(file, "libspillway"))
		printf("shim %lx\n",
		       (unsigned long)((uintptr_t)function - (uintptr_t)info.dli_fbase));
	else
		printf("driver %s\n",
		       info.dli_saddr == function && info.dli_sname ? info.dli_sname : "?");
}

int main(int argc, char **argv)
{
	CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	FILE *table = argc == 2 ? fopen(argv[1], "r") : NULL;
	char line[512], name[128];

	if (!library || !table)
		return 2;
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
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
		result = get(name, &function, version, (cuuint64_t)flags, &status);
		printf("%s %d %d %d %d ", *name ? name : "''", version, flags, (int)result,
		       (int)status);
		print_owner(function);
	}
	fclose(table);
	return 0;
}
