/* SPDX-License-Identifier: MIT */
/*
 * Command lines.
 *
 * argp calls a program by argv[0] in its help and in getopt's messages alike. Here help has to say
 * "spillway run" and messages "spillway:", so argv[0] is the latter and help is ours.
 */
#include "tools/view/arguments.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/nearest.h"
#include "core/base/units.h"
#include "tools/view/reach.h"
#include "tools/view/tool.h"

enum { BEGINS_OTHERWISE = 1000 };
enum { OPTION_HELP = '?', OPTION_VERSION = 'V', OPTION_USAGE = 0x400, OPTION_FIRST, OPTIONS = 64 };

void (*arguments_answer)(const struct command_line *line, const struct argument *common,
                         char **words);
static const char *command_name = "spillway";

/* The options of all commands, which arguments_parse() itself carries out. */
static const struct argument common_options[] = {
    {.name = "help", .letter = OPTION_HELP, .help = "Show this"},
    {.name = "usage", .help = "Show the options in short"},
    {.name = "version", .letter = OPTION_VERSION, .help = "Show the version"},
    {.name = NULL},
};

struct reading {
	const struct command_line *line;
	struct argp_option options[OPTIONS];
	const struct argument *of[OPTIONS]; /* NULL: one that all commands have */
	int count;
	char **operands;
	int operand_count;
};

static void arguments_add(struct reading *reading, const struct argument *argument)
{
	for (; argument && argument->name; argument++) {
		int key = argument->letter ? argument->letter : OPTION_FIRST + reading->count;

		if (!argument->help)
			key = reading->options[reading->count - 1].key;
		reading->of[reading->count] = argument;
		reading->options[reading->count++] = (struct argp_option){
		    argument->name, key, argument->value, argument->help ? 0 : OPTION_HIDDEN,
		    argument->help, 0};
	}
}

static void arguments_add_all(struct reading *reading)
{
	arguments_add(reading, reading->line->options);
	if (reading->line->limits)
		reading->options[reading->count++] =
		    (struct argp_option){.doc = "Limits:", .group = 1};
	arguments_add(reading, reading->line->limits);
	for (const struct argument *common = common_options; common->name; common++)
		reading->options[reading->count++] = (struct argp_option){
		    common->name, common->letter ? common->letter : OPTION_USAGE,
		    NULL,         0,
		    common->help, -1};
}

static void arguments_help(struct argp_state *state, unsigned int flags)
{
	state->name = (char *)command_name;
	argp_state_help(state, stdout, flags);
}

/*
 * Finds the option that was meant: the shortest that begins so, else the nearest; NULL: none.
 * Options that begin so come before all others that do not.
 */
static const char *nearest_option(const struct reading *reading, const char *word)
{
	int least = BEGINS_OTHERWISE + NEAREST_SLIP + 1;
	const char *nearest = NULL;

	for (int i = 0; i < reading->count; i++) {
		const char *name = reading->options[i].name;
		int distance;

		if (!name || reading->options[i].flags & OPTION_HIDDEN)
			continue;
		distance = strncmp(name, word, strlen(word)) == 0
		               ? (int)(strlen(name) - strlen(word))
		               : nearest_distance(word, name) + BEGINS_OTHERWISE;
		if (distance < least) {
			least = distance;
			nearest = name;
		}
	}
	return nearest;
}

/*
 * Names the long option that was meant by one that getopt did not know, or that it found ambiguous.
 */
static void suggest(const struct argp_state *state)
{
	const char *typed = state->next > 0 ? state->argv[state->next - 1] : "";
	const char *nearest;
	char *word;

	if (strncmp(typed, "--", 2) != 0 || !typed[2])
		return;
	word = text("%.*s", (int)strcspn(typed + 2, "="), typed + 2);
	nearest = nearest_option(state->input, word);
	if (nearest && strcmp(nearest, word) != 0)
		fprintf(stderr, "Did you mean '--%s'?\n", nearest);
	free(word);
}

static _Noreturn void send_to_help(void)
{
	fprintf(stderr, "Try '%s --help'.\n", command_name);
	exit(tool_usage_failure);
}

/* Operands are gathered at the beginning of argv, which has been read there. */
static void take_operand(struct reading *reading, char *operand, struct argp_state *state)
{
	if (reading->line->takes_program) {
		reading->operands = &state->argv[state->next - 1];
		reading->operand_count = state->argc - state->next + 1;
		state->next = state->argc;
	} else {
		reading->operands[reading->operand_count++] = operand;
	}
}

static error_t arguments_parse(int key, char *value, struct argp_state *state)
{
	struct reading *reading = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->err_stream = NULL; /* it would send people to the help of "spillway" */
		return 0;
	case ARGP_KEY_ERROR: /* getopt has named the fault */
		suggest(state);
		send_to_help();
	case ARGP_KEY_ARG:
		take_operand(reading, value, state);
		return 0;
	case OPTION_HELP:
		arguments_help(state, ARGP_HELP_STD_HELP);
		return 0;
	case OPTION_USAGE:
		arguments_help(state, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
		return 0;
	case OPTION_VERSION:
		printf("spillway %s\n", SPILLWAY_VERSION);
		exit(EXIT_SUCCESS);
	default:
		break;
	}
	for (int i = 0; i < reading->count; i++) {
		if (!reading->of[i] || reading->options[i].key != key)
			continue;
		reading->of[i]->take(reading->of[i], value);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

char **arguments_read(const struct command_line *line, int argc, char **argv)
{
	struct reading reading = {.line = line, .operands = argv + 1};
	const struct argp argp = {
	    .options = reading.options,
	    .parser = arguments_parse,
	    .args_doc = line->operands,
	    .doc = line->about,
	};
	error_t error;

	if (arguments_answer)
		arguments_answer(line, common_options, argv + 1);
	command_name = line->command;
	arguments_add_all(&reading);
	error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &reading);
	if (error)
		fail("%s", strerror(error));
	reading.operands[reading.operand_count] = NULL;
	return reading.operands;
}

void usage_error(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	complain_list(format, list);
	va_end(list);
	send_to_help();
}

void argument_flag(const struct argument *argument, const char *value)
{
	(void)value;
	*(bool *)argument->into = true;
}

void argument_text(const struct argument *argument, const char *value)
{
	*(const char **)argument->into = value;
}

void argument_file(const struct argument *argument, const char *value)
{
	if (!*value)
		usage_error("--%s '': expected a file", argument->name);
	argument_text(argument, value);
}

void argument_duration(const struct argument *argument, const char *value)
{
	if (units_parse_duration(value, argument->into) != 0)
		usage_error("--%s '%s': expected seconds, or a time such as 500ms", argument->name,
		            value);
}

const char *arguments_reach(const char *job)
{
	if (job && !reach_job(&job))
		exit(tool_failure);
	return job;
}

const char *arguments_job(char **operands, bool is_needed)
{
	if (!operands[0] && is_needed)
		usage_error("expected a job");
	if (operands[0] && operands[1])
		usage_error("'%s': expected one job", operands[1]);
	return arguments_reach(operands[0]);
}
