/* SPDX-License-Identifier: MIT */
/* Completion. */
#include "tools/view/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/view/arguments.h"
#include "tools/view/rows.h"
#include "tools/view/tool.h"

enum { TABLES = 3 };

/* A command line that is being typed. */
struct typing {
	const struct command_line *line;
	const struct argument *table[TABLES];
	const struct argument *awaits; /* the option whose value is next; NULL: none */
	const char *word;              /* under the cursor */
	bool has_operand, only_operands;
};

void completion_offer(const char *typed, const char *word, const char *meaning)
{
	if (strncmp(word, typed, strlen(typed)) != 0)
		return;
	printf(meaning ? "%s\t%s\n" : "%s\n", word, meaning);
}

/* Returns the option of so long a name, or of the letter, or NULL. */
static const struct argument *completion_find(const struct typing *typing, const char *name,
                                              size_t length, char letter)
{
	for (int t = 0; t < TABLES; t++)
		for (const struct argument *a = typing->table[t]; a && a->name; a++)
			if (letter ? a->letter == letter
			           : strlen(a->name) == length && !memcmp(a->name, name, length))
				return a;
	return NULL;
}

/* Reads a word before the cursor. An option that lacks its value awaits it in the next word. */
static void read_word(struct typing *typing, const char *word)
{
	const struct argument *option;

	if (typing->awaits) {
		typing->awaits = NULL;
	} else if (typing->only_operands || word[0] != '-' || !word[1]) {
		typing->has_operand = true;
		typing->only_operands |= typing->line->takes_program;
	} else if (strcmp(word, "--") == 0) {
		typing->only_operands = true;
	} else {
		option = word[1] == '-' ? completion_find(typing, word + 2, strlen(word + 2), 0)
		                        : completion_find(typing, "", 0, word[strlen(word) - 1]);
		typing->awaits = option && option->value ? option : NULL;
	}
}

/* Offers a word with and without each part in brackets: "csv[,noheader]" is two. */
static void offer_forms(const char *typed, const char *word)
{
	size_t before = strcspn(word, "["), part = strcspn(word + before, "]");
	char *without, *with;

	if (!word[before]) {
		completion_offer(typed, word, NULL);
		return;
	}
	without = text("%.*s%s", (int)before, word, word + before + part + 1);
	with = text("%.*s%.*s%s", (int)before, word, (int)part - 1, word + before + 1,
	            word + before + part + 1);
	offer_forms(typed, without);
	offer_forms(typed, with);
	free(without);
	free(with);
}

/* Offers the parts of "one|other". */
static void offer_words(const char *typed, const char *words)
{
	for (size_t length; *words; words += length + (words[length] == '|')) {
		char *word;

		length = strcspn(words, "|");
		word = text("%.*s", (int)length, words);
		offer_forms(typed, word);
		free(word);
	}
}

/* Offers the jobs; living: without those that have ended. */
static void offer_jobs(const char *typed, bool living)
{
	struct rows rows;

	rows_read(&rows, NULL);
	for (int i = 0; i < rows.count; i++)
		if ((rows.row[i].running || !living) &&
		    (i == 0 || strcmp(rows.row[i].typed, rows.row[i - 1].typed) != 0))
			completion_offer(typed, rows.row[i].typed, NULL);
	rows_free(&rows);
}

/* Offers files where no job begins so. */
static void offer_jobs_and_files(const char *typed)
{
	if (strchr(typed, '/') || access(typed, F_OK) == 0)
		puts("@files");
	else
		offer_jobs(typed, false);
}

static void offer_value(const struct argument *option, const char *typed)
{
	if (strchr(option->value, '|'))
		offer_words(typed, option->value);
	else if (strcmp(option->value, "FILE") == 0)
		puts("@files");
	else if (strcmp(option->value, "JOB") == 0)
		offer_jobs(typed, false);
}

static void offer_options(const struct typing *typing)
{
	for (int t = 0; t < TABLES; t++)
		for (const struct argument *a = typing->table[t]; a && a->name; a++) {
			char *word = text("--%s", a->name);

			if (a->help) /* none: an old spelling */
				completion_offer(typing->word, word, a->help);
			free(word);
		}
}

/* Offers operands. A command that must have a job acts on it, which one that has ended does not
 * allow. */
static void offer_operands(const struct typing *typing)
{
	const char *operands = typing->line->operands;

	if (typing->line->takes_program)
		puts(typing->has_operand ? "@files" : "@programs");
	else if (strncmp(operands, "JOB|FILE", 8) == 0)
		offer_jobs_and_files(typing->word);
	else if (!typing->has_operand && strncmp(operands, "JOB", 3) == 0)
		offer_jobs(typing->word, true);
	else if (!typing->has_operand && strncmp(operands, "[JOB", 4) == 0)
		offer_jobs(typing->word, false);
}

static void offer(const struct typing *typing)
{
	const char *equals = strchr(typing->word, '=');
	const struct argument *option = NULL;

	if (typing->awaits) {
		offer_value(typing->awaits, typing->word);
		return;
	}
	if (!typing->only_operands && strncmp(typing->word, "--", 2) == 0 && equals) {
		option = completion_find(typing, typing->word + 2,
		                         (size_t)(equals - typing->word - 2), 0);
		if (option && option->value)
			offer_value(option, equals + 1);
	} else if (!typing->only_operands && typing->word[0] == '-') {
		offer_options(typing);
	} else {
		offer_operands(typing);
	}
}

/* Answers for a command, given its words behind the command's name, NULL-terminated. */
static _Noreturn void completion_answer(const struct command_line *line,
                                        const struct argument *common, char **words)
{
	struct typing typing = {
	    .line = line, .table = {line->options, line->limits, common}, .word = ""};

	for (; words[0] && words[1]; words++)
		read_word(&typing, words[0]);
	if (words[0])
		typing.word = words[0];
	offer(&typing);
	exit(EXIT_SUCCESS);
}

void completion_begin(void)
{
	arguments_answer = completion_answer;
}
