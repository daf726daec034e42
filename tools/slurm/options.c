/* SPDX-License-Identifier: MIT */
/* Options and arguments: their words, their values, and messages about bad ones. */
#include "tools/slurm/options.h"

#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/units.h"

/* A line of the settings has less than 200 bytes: a longer value is refused where the job is
 * submitted, too, and not on its nodes alone. */
enum { VALUE_MAX = 64, SHOWN_MAX = 32 };

static const enum config_key keys[JOB_OPTION_COUNT] = {
#define X(name, key) CONFIG_KEY_##key,
    JOB_OPTIONS(X)
#undef X
};

/* Checks a value. Returns false with the expected form, which quotes nothing unprintable. */
static bool option_check_text(enum job_option option, const char *text, char *message, size_t size)
{
	if (strnlen(text, VALUE_MAX + 1) > VALUE_MAX) {
		snprintf(message, size, "expected at most %d characters", VALUE_MAX);
		return false;
	}
	if (config_check_value(keys[option], text, message, size) == 0)
		return true;
	printable(message);
	return false;
}

/* Refuses a bad value; Slurm adds the option's name, and ends the command. */
static int options_check(int option, const char *value, int is_remote)
{
	char message[CONFIG_MESSAGE_MAX];

	(void)is_remote;
	if (option_check_text((enum job_option)option, value ? value : "", message, sizeof message))
		return 0;
	slurm_error("spillway: %s", message);
	return -1;
}

/* Whole from the start: in prolog and epilog Slurm calls no slurm_spank_init(). */
static struct spank_option options[JOB_OPTION_COUNT] = {
    [OPTION_memory] = {.name = "gpu-mem",
                       .arginfo = "SIZE",
                       .usage = "[spillway] device memory on each GPU: 8GiB, 50%, unlimited",
                       .has_arg = 1,
                       .cb = options_check},
    [OPTION_memory_max] = {.name = "gpu-mem-max",
                           .arginfo = "SIZE",
                           .usage =
                               "[spillway] how far that may rise by itself while the GPU has room",
                           .has_arg = 1,
                           .cb = options_check},
    [OPTION_share] = {.name = "gpu-share",
                      .arginfo = "PERCENT",
                      .usage = "[spillway] percent of each GPU's time",
                      .has_arg = 1,
                      .cb = options_check},
    [OPTION_priority] = {.name = "gpu-priority",
                         .arginfo = "PRIORITY",
                         .usage = "[spillway] opportunistic, normal or guaranteed",
                         .has_arg = 1,
                         .cb = options_check},
};

const char *option_name(enum job_option option)
{
	return options[option].name;
}

enum config_key option_key(enum job_option option)
{
	return keys[option];
}

spank_err_t options_register(spank_t spank)
{
	for (int i = 0; i < JOB_OPTION_COUNT; i++) {
		spank_err_t error;

		options[i].val = i;
		error = spank_option_register(spank, &options[i]);
		if (error != ESPANK_SUCCESS)
			return error;
	}
	return ESPANK_SUCCESS;
}

bool options_find(spank_t spank, enum job_option option, const char **value, char *message,
                  size_t size)
{
	char problem[CONFIG_MESSAGE_MAX], shown[SHOWN_MAX + 1], *text = NULL;

	*value = NULL;
	if (spank_option_getopt(spank, &options[option], &text) != ESPANK_SUCCESS || !text)
		return true;
	if (option_check_text(option, text, problem, sizeof problem)) {
		*value = text;
		return true;
	}
	/* It goes into root's log, and may be of any length and have any bytes. */
	snprintf(shown, sizeof shown, "%s", text);
	snprintf(message, size, "--%s=%s%s: %s", options[option].name, printable(shown),
	         strnlen(text, SHOWN_MAX + 1) > SHOWN_MAX ? "..." : "", problem);
	return false;
}

/* Returns the text behind "NAME=" in a word, NULL if it is another. */
static const char *options_after(const char *word, const char *name)
{
	size_t length = strlen(name);

	return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static bool options_fail(const char *word, const char *expected, char *message, size_t size)
{
	snprintf(message, size, "plugstack.conf: %s: %s", word, expected);
	return false;
}

static bool take_default(const char *word, struct arguments *arguments, char *message, size_t size)
{
	char problem[CONFIG_MESSAGE_MAX];

	for (int i = 0; i < JOB_OPTION_COUNT; i++) {
		char name[32];
		const char *value;

		snprintf(name, sizeof name, "default-%s", options[i].name + strlen("gpu-"));
		value = options_after(word, name);
		if (!value)
			continue;
		if (config_check_value(keys[i], value, problem, sizeof problem) != 0)
			return options_fail(word, problem, message, size);
		arguments->standard[i] = value;
		return true;
	}
	return options_fail(
	    word,
	    "expected dir=, lib=, shards=, comment=, default-mem=, default-mem-max=, "
	    "default-share= or default-priority=",
	    message, size);
}

static bool options_take(const char *word, struct arguments *arguments, char *message, size_t size)
{
	const struct {
		const char *name, **path;
		bool *truth;
	} words[] = {{"dir", &arguments->directory, NULL},
	             {"lib", &arguments->library, NULL},
	             {"shards", NULL, &arguments->of_shards},
	             {"comment", NULL, &arguments->comments}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *value = options_after(word, words[i].name);

		if (!value)
			continue;
		if (words[i].truth)
			return units_parse_bool(value, words[i].truth) == 0 ||
			       options_fail(word, "expected yes or no", message, size);
		*words[i].path = value;
		return *value == '/' ||
		       options_fail(word, "expected a path that begins with /", message, size);
	}
	return take_default(word, arguments, message, size);
}

bool plugin_words_read(int argc, char **argv, struct arguments *arguments, char *message,
                       size_t size)
{
	*arguments = (struct arguments){.directory = "/run/spillway-slurm",
	                                .library = "/usr/local/lib/spillway",
	                                .of_shards = true,
	                                .comments = true};
	for (int i = 0; i < argc; i++)
		if (!options_take(argv[i], arguments, message, size))
			return false;
	return true;
}
