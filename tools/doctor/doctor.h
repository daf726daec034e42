/* SPDX-License-Identifier: MIT */
/* spillway doctor: checks this machine, with reasons and remedies. */
#ifndef SPILLWAY_DOCTOR_H
#define SPILLWAY_DOCTOR_H

/* Runs as the commands of tools/cli/commands.h do. */
int command_doctor(int argc, char **argv);

#endif
