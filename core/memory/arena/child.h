/*
 * Programs of our own, run as children that the process's own program does not notice: their end is
 * no SIGCHLD, and no wait() of the program finds them. Nothing of the process's is theirs but the
 * descriptors they are given. Thread-safe.
 */
#ifndef SPILLWAY_CHILD_H
#define SPILLWAY_CHILD_H

#include <stddef.h>

#include "core/base/deadline.h"

/*
 * Runs a program with these arguments and this environment, and fills `out` with what it prints, as
 * far as there is room, ending with a NUL. Waits for its end, and kills it at the deadline. Returns
 * its exit status, or a negative errno: -ETIME it was killed, -EINTR a signal ended it, else it
 * could not be run. No cancellation point; keeps errno.
 */
int child_run(const char *program, char *const *arguments, char *const *environment, char *out,
              size_t size, struct deadline *until);

#endif
