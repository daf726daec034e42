/* SPDX-License-Identifier: MIT */
/*
 * Running a program as a child that behaves as if its parent were not there: same process group, so
 * that the terminal's job control works; signals sent to us are sent on; its exit status is ours.
 * For example, a program that SIGTERM has ended makes us end by SIGTERM.
 */
#ifndef SPILLWAY_LAUNCH_H
#define SPILLWAY_LAUNCH_H

#include <stdint.h>

/*
 * Runs PROGRAM ARGS... with our environment. Meanwhile calls look(), which returns after how many
 * ns it wants to look again; 0: it has seen enough. Returns the wait status as waitpid() gives it.
 */
int launch(char **program, uint64_t (*look)(void *cookie), void *cookie);
/* Ends us as the wait status says: with the exit code, or of the same signal. */
_Noreturn void launch_exit(int status);

#endif
