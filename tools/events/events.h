/* SPDX-License-Identifier: MIT */
/* spillway events: the events of all processes of a job, or of all jobs, from their rings. */
#ifndef SPILLWAY_EVENTS_COMMAND_H
#define SPILLWAY_EVENTS_COMMAND_H

/* Runs as the commands of tools/cli/commands.h do. */
int command_events(int argc, char **argv);

#endif
