/* SPDX-License-Identifier: MIT */
/* spillway: finds the command and hands over to it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/nearest.h"
#include "core/config/config.h"
#include "tools/cli/commands.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/softgpu.h"
#include "tools/events/events.h"
#include "tools/top/top.h"
#include "tools/view/arguments.h"
#include "tools/view/child.h"
#include "tools/view/completion.h"
#include "tools/view/tool.h"
#include "tools/web/web.h"
#include "tools/whatif/whatif.h"
#include "tools/wheels/wheels.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>

/*
 * Turns the search for leaks off: memory that a command holds until its process ends is not freed.
 */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
    {"run", command_run, "run a program as a job, with limits"},
    {"stat", command_stat, "show jobs: memory, spills, shares, processes"},
    {"top", command_top, "watch jobs and change them"},
    {"web", command_web, "serve a page of the jobs for a browser"},
    {"set", command_set, "change the limits of a running job"},
    {"pause", command_pause, "stop a job at its next kernel launch"},
    {"resume", command_resume, "let a paused job go on"},
    {"events", command_events, "show what happened when, or draw it"},
    {"what-if", command_what_if, "predict what a step takes under another limit"},
    {"cdi", command_cdi, "print what containers need, as devices with limits"},
    {"doctor", command_doctor, "say what works on this machine, and why not"},
    {NULL, NULL, NULL},
};

static _Noreturn void unknown_command(const char *name)
{
	const char *names[sizeof commands / sizeof *commands], *meant;

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		names[i] = commands[i].name;
	meant = nearest_word(name, names);
	if (meant)
		usage_error("'%s' is not a command; did you mean '%s'?", name, meant);
	usage_error("'%s' is not a command", name);
}

static const struct command *command_find(const char *name)
{
	const struct command *command = commands;

	while (command->name && strcmp(command->name, name) != 0)
		command++;
	if (!command->name)
		unknown_command(name);
	return command;
}

/* Writes the purpose of the tool, and behind the options its commands; NULL: no memory. */
static char *about(void)
{
	char *help = NULL;
	size_t size;
	FILE *out = open_memstream(&help, &size);

	if (!out)
		return NULL;
	fputs("Memory limits that spill instead of failing, and shares of GPU time, for unmodified "
	      "CUDA programs.\vCommands:\n",
	      out);
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "  %-8s %s\n", command->name, command->summary);
	fputs("\n'spillway help COMMAND' shows the options of one.", out);
	fclose(out);
	return help;
}

/* Answers a shell that completes the words, the command's name first. */
static int cli_complete(const struct command_line *line, int count, char **words)
{
	const char *typed = count ? words[0] : "";
	bool is_help = count == 2 && strcmp(typed, "help") == 0;

	completion_begin();
	if (count > 1 && !is_help) {
		for (const struct command *command = commands; command->name; command++)
			if (strcmp(command->name, typed) == 0)
				return command->run(count, words);
		return TOOL_OK;
	}
	if (typed[0] == '-')
		arguments_read(line, count + 1, words - 1);
	typed = count ? words[count - 1] : "";
	for (const struct command *command = commands; command->name; command++)
		completion_offer(typed, command->name, command->summary);
	if (!is_help)
		completion_offer(typed, "help", "show the options of a command");
	return TOOL_OK;
}

/* Returns the cause of changes, before root takes the rights of a job's user. */
static struct config_cause cause_of(const char *name)
{
	return (struct config_cause){strcmp(name, CHILD_OF_PAGE) == 0  ? CAUSE_PAGE
	                             : strcmp(name, CHILD_OF_TOP) == 0 ? CAUSE_TOP
	                                                               : CAUSE_COMMAND,
	                             getuid() + 1};
}

int main(int argc, char **argv)
{
	static char name[] = "spillway", help[] = "--help";
	char *help_arguments[] = {name, help, NULL}, **operands;
	const struct command_line line = {
	    .command = "spillway",
	    .operands = "COMMAND [ARGUMENTS...]",
	    .about = about(),
	    .takes_program = true,
	};
	const struct command *command;
	bool is_help;

	if (argc < 1)
		return TOOL_USAGE;
	output_check_at_end();
	config_machine(); /* before a directory is chosen */
	config_cause = cause_of(argv[0]);
	argv[0] = name; /* how every message begins, with any path of the tool */
	operands = arguments_read(&line, argc, argv);
	if (!operands[0])
		usage_error("expected a command");
	if (strcmp(operands[0], "complete") == 0)
		return cli_complete(&line, argc - (int)(operands + 1 - argv), operands + 1);
	if (strcmp(operands[0], WHEELS_COMMAND) == 0)
		return softgpu_become_python(operands + 1);
	is_help = strcmp(operands[0], help + 2) == 0;
	if (is_help && !operands[1]) {
		arguments_read(&line, 2, help_arguments);
		return TOOL_OK; /* it has ended us */
	}
	command = command_find(operands[is_help]);
	if (is_help)
		return command->run(2, help_arguments);
	operands[0] = name;
	return command->run(argc - (int)(operands - argv), operands);
}
