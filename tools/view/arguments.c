/*
 * Command lines.
 *
 * argp calls a program by argv[0] in its help and in getopt's messages alike. Here help has to say
 * "spillway run" and messages "spillway:", so argv[0] is the latter and help is ours.
 */
#include "tools/view/arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "tools/view/nearest.h"
#include "tools/view/tool.h"

enum { BEGINS_OTHERWISE = 1000 };
enum { OPTION_HELP = '?', OPTION_VERSION = 'V', OPTION_USAGE = 0x400 };

static const struct argp_option options[] = {
    {"help", OPTION_HELP, NULL, 0, "Show this", -1},
    {"usage", OPTION_USAGE, NULL, 0, "Show the options in short", 0},
    {"version", OPTION_VERSION, NULL, 0, "Show the version", 0},
    {0},
};

static const char *command_name = "spillway";

static void help(struct argp_state *state, unsigned int flags)
{
	state->name = (char *)command_name;
	argp_state_help(state, stdout, flags);
}

/* Finds the option that was meant: the shortest that begins so, else the nearest; NULL: none. */
static const char *nearest_option(const struct argp *argp, const char *word, size_t *least)
{
	const char *nearest = NULL;
	size_t length = strlen(word);

	for (const struct argp_option *option = argp->options;
	     option && (option->name || option->key || option->doc); option++) {
		bool begins = option->name && strncmp(option->name, word, length) == 0;
		size_t distance;

		if (!option->name)
			continue;
		distance =
		    begins ? strlen(option->name) - length : nearest_distance(word, option->name);
		/* What begins so comes before all that does not. */
		distance += begins ? 0 : BEGINS_OTHERWISE;
		if (distance < *least) {
			*least = distance;
			nearest = option->name;
		}
	}
	for (const struct argp_child *child = argp->children; child && child->argp; child++) {
		const char *found = nearest_option(child->argp, word, least);

		nearest = found ? found : nearest;
	}
	return nearest;
}

/* Names the long option that was meant by one that getopt did not know, or that it found ambiguous.
 */
static void suggest(const struct argp_state *state)
{
	const char *typed = state->next > 0 ? state->argv[state->next - 1] : "";
	size_t least = BEGINS_OTHERWISE + NEAREST_SLIP + 1;
	const char *nearest;
	char *word;

	if (strncmp(typed, "--", 2) != 0 || !typed[2])
		return;
	word = text("%.*s", (int)strcspn(typed + 2, "="), typed + 2);
	nearest = nearest_option(state->root_argp, word, &least);
	if (nearest && strcmp(nearest, word) != 0)
		fprintf(stderr, "Did you mean '--%s'?\n", nearest);
	free(word);
}

static _Noreturn void send_to_help(void)
{
	fprintf(stderr, "Try '%s --help'.\n", command_name);
	exit(argp_err_exit_status);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		state->err_stream = NULL; /* it would send people to the help of "spillway" */
		return 0;
	case ARGP_KEY_ERROR: /* getopt has said what is wrong */
		suggest(state);
		send_to_help();
	case OPTION_HELP:
		help(state, ARGP_HELP_STD_HELP);
		return 0;
	case OPTION_USAGE:
		help(state, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
		return 0;
	case OPTION_VERSION:
		printf("spillway %s\n", SPILLWAY_VERSION);
		exit(EXIT_SUCCESS);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void arguments_read(const char *command, const struct argp *argp, int argc, char **argv,
                    void *input)
{
	struct argp own = *argp;
	const struct argp_child children[] = {{&own, 0, NULL, 0}, {0}};
	const struct argp all = {
	    .options = options,
	    .parser = parse,
	    .args_doc = argp->args_doc,
	    .doc = argp->doc,
	    .children = children,
	    .help_filter = argp->help_filter,
	};
	error_t error;

	command_name = command;
	own.args_doc = own.doc = NULL;
	own.help_filter = NULL;
	error = argp_parse(&all, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, input);
	if (error)
		fail("%s", strerror(error));
}

void usage_error(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	complain_list(format, list);
	va_end(list);
	send_to_help();
}

uint64_t arguments_duration(const char *option, const char *value)
{
	uint64_t ns;

	if (units_parse_duration(value, &ns) != 0)
		usage_error("--%s '%s': expected seconds, or a time such as 500ms", option, value);
	return ns;
}

void arguments_job(const char **job, const char *value)
{
	if (*job)
		usage_error("'%s': expected one job", value);
	*job = value;
}
