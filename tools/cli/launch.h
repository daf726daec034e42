/*
 * Running a program as a child that behaves as if its parent were not there: same process group, so
 * that the terminal's job control works; signals sent to us are sent on; its exit status is ours.
 */
#ifndef SPILLWAY_LAUNCH_H
#define SPILLWAY_LAUNCH_H

/* Runs PROGRAM ARGS... with our environment; the wait status as waitpid() gives it. */
int launch(char **program);
/* Ends us as the wait status says: with the exit code, or of the same signal. */
_Noreturn void launch_exit(int status);

#endif
