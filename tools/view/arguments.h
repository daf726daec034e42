/*
 * Command lines: argp as every command uses it, with the same --help, --usage and --version, and
 * every message beginning with "spillway:".
 */
#ifndef SPILLWAY_ARGUMENTS_H
#define SPILLWAY_ARGUMENTS_H

#include <argp.h>
#include <stdint.h>

/*
 * Reads the options and operands in order; command is its name for people, as in "spillway run". A
 * mistake ends the tool with argp_err_exit_status.
 */
void arguments_read(const char *command, const struct argp *argp, int argc, char **argv,
                    void *input);

/* Says a mistake on the command line in one line, and where help is, and ends the tool. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Nanoseconds of an option's value, or a usage error. */
uint64_t arguments_duration(const char *option, const char *value);
/* Takes the operand of a command that has one, or a usage error. */
void arguments_job(const char **job, const char *value);

#endif
