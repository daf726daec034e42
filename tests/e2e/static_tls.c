/*
 * static_tls FOLDER LIBRARY...: opens the libraries of the folder, which want their thread-local
 * memory beside that of the program's start, until no room for that is left; then each LIBRARY, and
 * says whether that worked, and what cuInit answers in the first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4096 };

int main(int argc, char **argv)
{
	int opened = 0, (*init)(unsigned int);
	char path[600];

	if (argc < 3)
		return 2;
	do
		snprintf(path, sizeof(path), "%s/%d.so", argv[1], opened);
	while (dlopen(path, RTLD_NOW) && ++opened < MOST);
	if (!strstr(dlerror(), "static TLS")) {
		printf("not exhausted after %d libraries\n", opened);
		return 1;
	}
	for (int i = 2; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		const char *why = library ? "opened" : dlerror();

		*(void **)&init = library ? dlsym(library, "cuInit") : NULL;
		printf("%d: %s; cuInit %d\n", i - 1, why, init ? init(0) : -1);
	}
	return 0;
}
