/* SPDX-License-Identifier: MIT */
/* Processes of the machine, as /proc tells of them. */
#ifndef SPILLWAY_PROCESSES_H
#define SPILLWAY_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_seen {
	uid_t owner;
	uint64_t started; /* in the kernel's ticks since boot */
	pid_t inside;     /* its number in its own PID namespace; 0: not known */
	bool is_probe;    /* the program that probes drivers, installed beside this tool */
	char command[64]; /* printable */
};

/* Looks at one. Returns false where it is not to be seen here. */
bool process_look(pid_t process, struct process_seen *seen);
/* Returns its number in its own PID namespace, or 0. */
pid_t process_inside(pid_t process);

#endif
