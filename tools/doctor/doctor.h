/* SPDX-License-Identifier: MIT */
/*
 * spillway doctor: what works on this machine and why not.
 */
#ifndef SPILLWAY_DOCTOR_H
#define SPILLWAY_DOCTOR_H

/* Runs as the commands of tools/cli/commands.h do. */
int command_doctor(int argc, char **argv);

#endif
