/* SPDX-License-Identifier: MIT */
/*
 * Command lines: each command names its options in a table and is given its operands. All have the
 * same --help, --usage and --version, and every message begins with "spillway:". For example,
 * `spillway set bert --memory 4XB` prints "spillway: --memory '4XB': expected a size such as 8GiB".
 */
#ifndef SPILLWAY_ARGUMENTS_H
#define SPILLWAY_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* An option; a table of them ends with one that has no name. */
struct argument {
	const char *name;
	char letter; /* of its short form; 0: none */
	const char
	    *value; /* its value's name in help, or all there are: "text|json"; NULL: it has none */
	const char *help; /* NULL: an old spelling of the option before it, taken and not listed */
	/* Takes the value, NULL where it has none; a bad one is a usage error. */
	void (*take)(const struct argument *argument, const char *value);
	void *into; /* where take() puts it */
};

/* Those that suffice for most options. */
void argument_flag(const struct argument *argument, const char *value);     /* bool: true */
void argument_text(const struct argument *argument, const char *value);     /* const char * */
void argument_file(const struct argument *argument, const char *value);     /* likewise, not "" */
void argument_duration(const struct argument *argument, const char *value); /* uint64_t: ns */

struct command_line {
	const char *command;  /* for people: "spillway run" */
	const char *operands; /* in help: "JOB" */
	const char *about;    /* its purpose; behind '\v' the text after the options */
	const struct argument *options;
	const struct argument *limits; /* more, in a group of their own; NULL: none */
	bool takes_program;            /* the words after the first operand are the program's */
};

/* Where it is not NULL, arguments_read() calls it in place of its work: with the line, the options
 * of all commands and the words, NULL-terminated. It does not return. */
extern void (*arguments_answer)(const struct command_line *line, const struct argument *common,
                                char **words);

/*
 * Reads the options and returns the operands, NULL-terminated, in argv. A mistake ends the tool
 * with tool_usage_failure.
 */
char **arguments_read(const struct command_line *line, int argc, char **argv);
/*
 * Returns the only operand, a job, by its name where it is; NULL: none. More is a usage error, and
 * none where it has to be; a job that is out of reach ends the tool.
 */
const char *arguments_job(char **operands, bool is_needed);
/* Goes to the place of a job (reach.h) that was given among others. NULL: none was. */
const char *arguments_reach(const char *job);

/* Says a mistake on the command line in one line, and where help is, and ends the tool. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
