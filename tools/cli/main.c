/* spillway: finds the command and hands over to it. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "tools/doctor/doctor.h"
#include "tools/top/top.h"
#include "tools/view/arguments.h"
#include "tools/view/nearest.h"
#include "tools/view/tool.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
    {"run", command_run, "run a program as a job, with limits"},
    {"stat", command_stat, "show jobs: memory, spills, shares, processes"},
    {"top", command_top, "watch jobs and change them"},
    {"set", command_set, "change the limits of a running job"},
    {"pause", command_pause, "stop a job at its next kernel launch"},
    {"resume", command_resume, "let a paused job go on"},
    {"events", command_events, "show what happened when, or draw it"},
    {"doctor", command_doctor, "say what works on this machine, and why not"},
    {NULL, NULL, NULL},
};

static const struct command *command_find(const char *name)
{
	const struct command *command = commands;

	while (command->name && strcmp(command->name, name) != 0)
		command++;
	return command->name ? command : NULL;
}

static _Noreturn void unknown_command(const char *name)
{
	const struct command *nearest = NULL;
	size_t least = NEAREST_SLIP + 1;

	for (const struct command *command = commands; command->name; command++) {
		size_t distance = nearest_distance(name, command->name);

		if (distance < least) {
			least = distance;
			nearest = command;
		}
	}
	if (nearest)
		usage_error("'%s' is not a command; did you mean '%s'?", name, nearest->name);
	usage_error("'%s' is not a command", name);
}

struct choice {
	const struct command *command;
	int index; /* of the command's name in argv */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct choice *choice = state->input;
	const char *name = argument;

	switch (key) {
	case ARGP_KEY_ARG:
		choice->index = state->next - 1;
		if (strcmp(name, "help") == 0)
			name = state->argv[state->next];
		if (!name) {
			argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
			return EINVAL; /* it has ended us */
		}
		choice->command = command_find(name);
		if (!choice->command)
			unknown_command(name);
		state->next = state->argc; /* the rest is the command's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		usage_error("which command?");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static char *list_commands(int key, const char *before, void *input)
{
	char *help = NULL;
	size_t size;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)before;
	out = open_memstream(&help, &size);
	if (!out)
		return NULL;
	fputs("Commands:\n", out);
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "  %-8s %s\n", command->name, command->summary);
	fputs("\n'spillway help COMMAND' shows the options of one.", out);
	fclose(out);
	return help;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
	    .parser = parse,
	    .args_doc = "COMMAND [ARGUMENTS...]",
	    .doc = "Memory limits that spill instead of failing, and shares of GPU time, "
	           "for unmodified CUDA programs.\v",
	    .help_filter = list_commands,
	};
	static char name[] = "spillway", help[] = "--help";
	char *help_arguments[] = {name, help, NULL};
	struct choice choice = {0};

	argp_err_exit_status = TOOL_USAGE;
	if (argc < 1)
		return TOOL_USAGE;
	output_check_at_end();
	argv[0] = name; /* how every message begins, whatever path we were called by */
	arguments_read("spillway", &argp, argc, argv, &choice);
	if (strcmp(argv[choice.index], "help") == 0)
		return choice.command->run(2, help_arguments);
	argv[choice.index] = name;
	return choice.command->run(argc - choice.index, argv + choice.index);
}
