/* SPDX-License-Identifier: MIT */
/*
 * static_tls FOLDER LIBRARY...: opens the libraries of the folder, which want their thread-local
 * memory beside that of the program's start. It stops when room for two of them is left, which a
 * driver may want for itself. Then it opens each LIBRARY and says whether that worked. It prints
 * the answer of cuInit in the first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 200 };

/* Opens so many; returns how many could be opened. */
static int open_libraries(const char *folder, int most)
{
	int opened = 0;
	char path[600];

	while (opened < most) {
		snprintf(path, sizeof(path), "%s/%d.so", folder, opened);
		if (!dlopen(path, RTLD_NOW))
			return strstr(dlerror(), "static TLS") ? opened : MOST;
		opened++;
	}
	return opened;
}

int main(int argc, char **argv)
{
	int room, (*init)(unsigned int);
	pid_t child;

	if (argc < 3)
		return 2;
	/*
	 * What has been opened keeps its room, so that another process finds out how many there
	 * are.
	 */
	child = fork();
	if (child == 0)
		_exit(open_libraries(argv[1], MOST));
	if (child < 0 || waitpid(child, &room, 0) != child || !WIFEXITED(room))
		return 2;
	room = WEXITSTATUS(room);
	if (room < 2 || room == MOST) {
		printf("not exhausted after %d libraries\n", room);
		return 1;
	}
	if (open_libraries(argv[1], room - 1) != room - 1)
		return 2;
	for (int i = 2; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		const char *why = library ? "opened" : dlerror();

		*(void **)&init = library ? dlsym(library, "cuInit") : NULL;
		printf("%d: %s; cuInit %d\n", i - 1, why, init ? init(0) : -1);
	}
	return 0;
}
