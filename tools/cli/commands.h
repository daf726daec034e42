/* SPDX-License-Identifier: MIT */
/*
 * The commands, but for those that are rooms of their own (tools/top, tools/doctor, tools/events).
 * argv[0] is "spillway", the command's name already taken off. Each returns the exit status.
 */
#ifndef SPILLWAY_COMMANDS_H
#define SPILLWAY_COMMANDS_H

int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_set(int argc, char **argv);
int command_pause(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_cdi(int argc, char **argv);

#endif
