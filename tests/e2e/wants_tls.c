/* SPDX-License-Identifier: MIT */
/* A library with thread-local memory beside that of the program's start. */
__thread char wants_tls[64] __attribute__((tls_model("initial-exec")));

char *wants_tls_address(void)
{
	return wants_tls;
}
