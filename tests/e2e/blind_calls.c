/* SPDX-License-Identifier: MIT */
/*
 * blind_calls [--init] NAME...: calls each function of the driver with meaningless arguments: all
 * zero, then all the address of a page of zeros. Each call has a process of its own, with --init
 * after cuInit. Prints the answer, or the signal by which the call ends, and whether it wrote to
 * the page.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* More arguments than any function has; who takes fewer ignores the rest. */
typedef int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

enum { PAGE = 65536, SECONDS = 300 };

/* Always at the same address: its lower half is a number to some. */
static unsigned char *const page = (unsigned char *)0x20000000;

static struct outcome {
	int result;
	bool wrote;
} * outcome; /* shared with the children */

static void call(function *f, uintptr_t a)
{
	static const unsigned char zeros[PAGE];

	prctl(PR_SET_DUMPABLE, 0); /* no core file, nor the time it takes */
	alarm(SECONDS);
	outcome->result = f(a, a, a, a, a, a, a, a, a, a, a, a);
	outcome->wrote = memcmp(page, zeros, PAGE) != 0;
	_exit(0);
}

static void try(const char *name, function *f, uintptr_t argument)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		call(f, argument);
	waitpid(child, &status, 0);
	printf("%s(%s): ", name, argument ? "page" : "0");
	if (status)
		printf("%s %d\n", WIFSIGNALED(status) ? "signal" : "status",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	else
		printf("%d%s\n", outcome->result, outcome->wrote ? ", wrote" : "");
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int first = 1;
	int (*init)(unsigned int);

	if (!driver)
		return 2;
	outcome =
	    mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mmap(page, PAGE, PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "--init") == 0) {
		*(void **)&init = dlsym(driver, "cuInit");
		printf("cuInit: %d\n", init(0));
		first++;
	}
	for (int i = first; i < argc; i++) {
		function *f;

		*(void **)&f = dlsym(driver, argv[i]);
		if (f) {
			try(argv[i], f, 0);
			try(argv[i], f, (uintptr_t)page);
		}
	}
	return 0;
}
