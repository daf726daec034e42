/*
 * childless [DONE FILE]: fills and checks 24 MiB of device memory in pieces, and then has no child
 * to wait for, and was told of none. With DONE it makes that file then, and waits for the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

static volatile sig_atomic_t told;

static void tell(int number)
{
	(void)number;
	told++;
}

int main(int argc, char **argv)
{
	enum { PIECES = 6, BYTES = 4 * MIB };
	CUdeviceptr piece[PIECES];
	static unsigned char back[BYTES];
	CUcontext context;

	signal(SIGCHLD, tell);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemAlloc_v2(&piece[i], BYTES));
		CHECK(cuMemsetD8_v2(piece[i], (unsigned char)(i + 1), BYTES));
	}
	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemcpyDtoH_v2(back, piece[i], BYTES));
		if (back[0] != i + 1 || back[BYTES - 1] != i + 1) {
			fprintf(stderr, "piece %d holds %d\n", i, back[0]);
			return 1;
		}
	}
	if (told || waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
		fprintf(stderr, "told of %d children\n", (int)told);
		return 1;
	}
	if (argc == 3) {
		close(open(argv[1], O_CREAT | O_WRONLY, 0600));
		while (access(argv[2], F_OK) != 0)
			usleep(10000);
	}
	return 0;
}
