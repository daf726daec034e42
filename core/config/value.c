/* SPDX-License-Identifier: MIT */
/* Values: the text of one key to a number and back. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/units.h"
#include "core/config/snapshot.h"

/* Lists of users. Rules: runs inside the user's process, which never looks up names of users. */

static const char between[] = ", \t";

/* Returns whether the text is numbers of users with commas or blanks between, and not too many. */
static bool config_is_user_list(const char *text)
{
	const char *rest = text + strspn(text, between);

	if (!*rest || strlen(text) >= CONFIG_USERS_MAX)
		return false;
	while (*rest) {
		size_t digits = strspn(rest, "0123456789");

		if (digits == 0 || digits > 10)
			return false;
		rest += digits;
		if (*rest && !strchr(between, *rest))
			return false;
		rest += strspn(rest, between);
	}
	return true;
}

bool config_lists_user(const char *list, uid_t user)
{
	char *rest;

	if (!*list)
		return true;
	for (list += strspn(list, between); *list; list = rest + strspn(rest, between)) {
		unsigned long long number = strtoull(list, &rest, 10);

		if (rest == list)
			return false;
		if (number == user)
			return true;
	}
	return false;
}

const struct config_key_row config_keys[CONFIG_KEY_COUNT] = {
#define X(name, kind, builtin, choices, bound, ...) {#name, builtin, choices, bound, kind},
    CONFIG_GPU_KEYS(X)
#undef X
};

const char *config_key_name(enum config_key key)
{
	return config_keys[key].name;
}

bool (*config_has_module)(const char *module);

bool config_lacks_module(const char *module)
{
	return config_has_module && !config_has_module(module);
}

uint32_t config_key_since(enum config_key key)
{
	switch (key) {
	case CONFIG_KEY_priority:
	case CONFIG_KEY_slowdown:
	case CONFIG_KEY_turn:
	case CONFIG_KEY_turn_length:
	case CONFIG_KEY_idle_yield:
	case CONFIG_KEY_placement:
	case CONFIG_KEY_shrink:
		return 7;
	default:
		return 0;
	}
}

static const struct old_spelling {
	enum config_key key;
	uint32_t version;
	char spelling[20];
} old_spellings[CONFIG_OLD_SPELLING_COUNT] = {
#define X(key, spelling, version) {CONFIG_KEY_##key, version, spelling},
    CONFIG_OLD_SPELLINGS(X)
#undef X
};

const char *config_old_spelling(int index, enum config_key *key)
{
	if (index >= CONFIG_OLD_SPELLING_COUNT)
		return NULL;
	*key = old_spellings[index].key;
	return old_spellings[index].spelling;
}

const char *config_key_name_for(enum config_key key, uint32_t version)
{
	for (int i = 0; i < CONFIG_OLD_SPELLING_COUNT; i++)
		if (old_spellings[i].key == key && version <= old_spellings[i].version)
			return old_spellings[i].spelling;
	return config_keys[key].name;
}

/* Returns the value in today's spelling. */
static const char *value_now(enum config_key key, const char *text)
{
	bool is_old = key == CONFIG_KEY_turn && strcasecmp(text, CONFIG_OLD_EXCLUSIVE) == 0;

	return is_old ? "exclusive" : text;
}

const char *config_value_for(enum config_key key, const char *text, uint32_t version)
{
	bool is_new = key == CONFIG_KEY_turn && strcasecmp(text, "exclusive") == 0;

	return is_new && version <= CONFIG_OLD_EXCLUSIVE_VERSION ? CONFIG_OLD_EXCLUSIVE : text;
}

enum config_key config_find_key(const char *name)
{
	for (int i = 0; i < CONFIG_OLD_SPELLING_COUNT; i++)
		if (strcmp(old_spellings[i].spelling, name) == 0)
			return old_spellings[i].key;
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (strcmp(config_keys[key].name, name) == 0)
			return (enum config_key)key;
	return CONFIG_KEY_COUNT;
}

char *config_as_option(const char *spelling, char option[CONFIG_SPELLING_MAX])
{
	snprintf(option, CONFIG_SPELLING_MAX, "%s", spelling);
	for (char *c = option; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return option;
}

char *config_as_variable(const char *spelling, char variable[CONFIG_SPELLING_MAX])
{
	snprintf(variable, CONFIG_SPELLING_MAX, "SPILLWAY_%s", spelling);
	for (char *c = variable; *c; c++)
		*c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
	return variable;
}

const char *config_key_argument(enum config_key key, char *buf, size_t size)
{
	static const char names[][8] = {
	    [CONFIG_SIZE_OR_PERCENT] = "SIZE", [CONFIG_SIZE] = "SIZE",
	    [CONFIG_PERCENT] = "PERCENT",      [CONFIG_COUNT] = "COUNT",
	    [CONFIG_BOOL] = "yes|no",          [CONFIG_DURATION] = "TIME",
	};

	snprintf(buf, size, "%s",
	         config_keys[key].kind == CONFIG_CHOICE ? config_keys[key].choices
	                                                : names[config_keys[key].kind]);
	return buf;
}

/* Says why a text is no value. Returns -EINVAL. */
static int __attribute__((format(printf, 2, 3)))
say(struct config_problem *problem, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem->text, sizeof(problem->text), format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* Finds the index of text in "first|second|third". */
static int parse_choice(const char *choices, const char *text, uint64_t *index)
{
	for (uint64_t i = 0; choices; i++) {
		size_t length = strcspn(choices, "|");

		if (strlen(text) == length && strncasecmp(choices, text, length) == 0) {
			*index = i;
			return 0;
		}
		choices = choices[length] == '|' ? choices + length + 1 : NULL;
	}
	return -EINVAL;
}

static void format_choice(const char *choices, uint64_t index, char *buf, size_t size)
{
	for (; index > 0 && choices; index--) {
		choices = strchr(choices, '|');
		if (choices)
			choices++;
	}
	snprintf(buf, size, "%.*s", choices ? (int)strcspn(choices, "|") : 0,
	         choices ? choices : "");
}

/* Writes a text such as "first, second or third". */
static void list_choices(const char *choices, char *buf, size_t size)
{
	const char *last = strrchr(choices, '|');
	size_t used = 0;

	for (const char *c = choices; *c && used + 5 < size; c++) {
		if (*c != '|')
			buf[used++] = *c;
		else
			used = (size_t)(stpcpy(buf + used, c == last ? " or " : ", ") - buf);
	}
	buf[used] = '\0';
}

/* Says which values the key takes. */
static int config_value_explain(const struct config_key_row *key, struct config_problem *problem)
{
	char choices[128];

	list_choices(key->choices, choices, sizeof(choices));
	switch (key->kind) {
	case CONFIG_SIZE_OR_PERCENT:
		return say(problem,
		           "expected a size such as 8GiB or 512M, a percentage such as 50%%, or "
		           "unlimited");
	case CONFIG_SIZE:
		return say(problem, "expected a size such as 8GiB or 512M, %s%sunlimited", choices,
		           *choices ? " or " : "or ");
	case CONFIG_PERCENT:
		return say(problem, "expected a percentage from 0 to 100 such as 70");
	case CONFIG_CHOICE:
		return say(problem, "expected %s", choices);
	case CONFIG_COUNT:
		return say(problem, "expected a whole number such as 3%s%s",
		           *choices ? ", or " : "", choices);
	case CONFIG_BOOL:
		return say(problem, "expected %s%syes or no", choices, *choices ? ", " : "");
	case CONFIG_DURATION:
		return say(problem, "expected a duration such as 100ms or 2s%s%s",
		           *choices ? ", or " : "", choices);
	}
	return -EINVAL;
}

/* Writes a percentage with as many digits as it needs: 70, 0.25. */
static void format_percent(uint64_t thousandths, char *buf, size_t size)
{
	int length = snprintf(buf, size, "%" PRIu64 ".%03u", thousandths / 1000,
	                      (unsigned)(thousandths % 1000));

	if (length < 0 || (size_t)length >= size)
		return;
	while (buf[length - 1] == '0')
		buf[--length] = '\0';
	if (buf[length - 1] == '.')
		buf[length - 1] = '\0';
}

static int parse_percent(const char *text, uint64_t *thousandths)
{
	double percent;
	uint64_t rounded;
	int status = units_parse_percent(text, &percent);

	if (status != 0)
		return status;
	rounded = (uint64_t)(percent * 1000 + 0.5);
	if (rounded == 0 && percent > 0)
		return -EDOM; /* 0 means something else */
	*thousandths = rounded;
	return 0;
}

static int parse_size(const char *text, uint64_t *bytes)
{
	uint64_t size;

	if (strcasecmp(text, "unlimited") == 0)
		size = CONFIG_UNLIMITED;
	else if (units_parse_size(text, &size) != 0 || size >= CONFIG_AUTO)
		return -EINVAL;
	*bytes = size;
	return 0;
}

/* Returns the unit that a person means by a bare size: 20 is GiB, 8192 is MiB. */
static const char *likely_size_unit(const char *text)
{
	uint64_t number;

	if (units_parse_count(text, &number) != 0 || number < 1024)
		return "GiB";
	return number < 1024 * 1024 ? "MiB" : "B";
}

/*
 * `--memory 20` is 20 bytes, and `--share 0.7` is 0.7 %: the problem asks for the value that was
 * probably meant.
 */
bool config_value_lacks_unit(enum config_key index, const char *text,
                             struct config_problem *problem)
{
	const struct config_key_row *key = &config_keys[index];
	char percent[32] = "";
	uint64_t thousandths;
	bool is_fraction = parse_percent(text, &thousandths) == 0 && thousandths < 1000;

	if (!units_is_bare(text))
		return false;
	if (is_fraction)
		format_percent(thousandths * 100, percent, sizeof(percent));
	switch (key->kind) {
	case CONFIG_SIZE_OR_PERCENT:
	case CONFIG_SIZE:
		if (is_fraction && key->kind == CONFIG_SIZE_OR_PERCENT)
			say(problem, "no unit; did you mean %s%% or %sGiB?", percent, text);
		else
			say(problem, "no unit; did you mean %s%s?", text, likely_size_unit(text));
		return true;
	case CONFIG_PERCENT:
		if (is_fraction)
			say(problem, "less than 1 %%; did you mean %s%%? If not, write %s%%",
			    percent, text);
		return is_fraction;
	case CONFIG_DURATION:
		say(problem, "no unit; did you mean %s%s?", text,
		    key->builtin + strspn(key->builtin, "0123456789"));
		return true;
	default:
		return false;
	}
}

/* Parses a number of the key's kind. Returns 0 or a negative errno. */
static int parse_number(const struct config_key_row *key, const char *text,
                        struct config_value *value)
{
	bool truth = false;
	int status;

	/* The word besides the kind's own: auto, or never. */
	if (key->kind != CONFIG_CHOICE && *key->choices && strcasecmp(text, key->choices) == 0) {
		value->number = key->kind == CONFIG_DURATION ? CONFIG_NEVER : CONFIG_AUTO;
		return 0;
	}
	switch (key->kind) {
	case CONFIG_SIZE_OR_PERCENT:
		value->of_memory = strchr(text, '%') != NULL;
		return value->of_memory ? parse_percent(text, &value->number)
		                        : parse_size(text, &value->number);
	case CONFIG_SIZE:
		return parse_size(text, &value->number);
	case CONFIG_PERCENT:
		return parse_percent(text, &value->number);
	case CONFIG_CHOICE:
		return parse_choice(key->choices, text, &value->number);
	case CONFIG_COUNT:
		return units_parse_count(text, &value->number);
	case CONFIG_BOOL:
		status = units_parse_bool(text, &truth);
		value->number = truth;
		return status;
	case CONFIG_DURATION:
		return units_parse_duration(text, &value->number);
	}
	return -EINVAL;
}

int config_value_parse(enum config_key key, const char *text, struct config_value *value,
                       struct config_problem *problem)
{
	struct config_value result = {0};
	int status = parse_number(&config_keys[key], value_now(key, text), &result);

	if (status == -EDOM)
		return say(problem, "expected 0 or at least 0.001");
	if (status != 0)
		return config_value_explain(&config_keys[key], problem);
	*value = result;
	return 0;
}

/* Parses a value as a person writes it. */
static int parse_written(enum config_key key, const char *text, struct config_value *value,
                         struct config_problem *problem)
{
	return config_value_lacks_unit(key, text, problem)
	           ? -EINVAL
	           : config_value_parse(key, text, value, problem);
}

int config_ceiling_parse(enum config_ceiling_key key, const char *text, bool *is_other,
                         struct config_problem *problem)
{
	static const char choices[CEILING_KEY_COUNT][12] = {
#define X(name, choices) choices,
	    CONFIG_CEILING_KEYS(X)
#undef X
	};
	struct config_value value;
	char list[32];
	uint64_t index;

	if (strcmp(choices[key], CONFIG_BYTES) == 0) {
		*is_other = parse_written(CONFIG_KEY_memory, text, &value, problem) == 0 &&
		            value.number != CONFIG_UNLIMITED;
		return *is_other
		           ? 0
		           : say(problem, "expected a size such as 1GiB or 512M, or a percentage");
	}
	if (choices[key][0] == '\0') {
		*is_other = text[0] == '/' && strlen(text) < CONFIG_STATE_DIR_MAX;
		return *is_other
		           ? 0
		           : say(problem, "expected an absolute path of at most %d characters",
		                 CONFIG_STATE_DIR_MAX - 1);
	}
	if (strcmp(choices[key], CONFIG_USERS) == 0) {
		*is_other = config_is_user_list(text);
		return *is_other ? 0
		                 : say(problem, "expected numbers of users, as id -u prints them");
	}
	if (strcmp(choices[key], "no|yes") == 0 && units_parse_bool(text, is_other) == 0)
		return 0;
	if (parse_choice(choices[key], text, &index) == 0) {
		*is_other = index != 0;
		return 0;
	}
	list_choices(choices[key], list, sizeof(list));
	return say(problem, "expected %s", list);
}

int config_check_value(enum config_key key, const char *text, char *message, size_t size)
{
	struct config_problem problem;
	struct config_value value;
	int status = parse_written(key, text, &value, &problem);

	if (status != 0 && message)
		snprintf(message, size, "%s", problem.text);
	return status;
}

bool config_is_same_value(enum config_key key, const char *one, const char *other)
{
	struct config_problem problem;
	struct config_value a, b;

	return parse_written(key, one, &a, &problem) == 0 &&
	       parse_written(key, other, &b, &problem) == 0 && a.number == b.number &&
	       a.of_memory == b.of_memory;
}

int config_check_selector(const char *text, const struct config_device *device)
{
	struct config_selector selector;

	if (config_selector_parse(text, &selector) != 0)
		return -EINVAL;
	return !device || config_selector_matches(&selector, device) ? 0 : -ENODEV;
}

/* Writes the value in the largest unit that divides it, so that nothing is lost. */
static void format_exact(uint64_t value, const uint64_t *factors, const char *const *units,
                         char *buf, size_t size)
{
	while (*factors > 1 && (value == 0 || value % *factors != 0)) {
		factors++;
		units++;
	}
	snprintf(buf, size, "%" PRIu64 "%s", value / *factors, *units);
}

const char *config_format(enum config_key index, uint64_t value, char *buf, size_t size)
{
	static const uint64_t size_factors[] = {UINT64_C(1) << 40, UINT64_C(1) << 30,
	                                        UINT64_C(1) << 20, UINT64_C(1) << 10, 1};
	static const char *const size_units[] = {"TiB", "GiB", "MiB", "KiB", "B"};
	static const uint64_t time_factors[] = {1000000000, 1000000, 1000, 1};
	static const char *const time_units[] = {"s", "ms", "us", "ns"};
	const struct config_key_row *key = &config_keys[index];

	switch (key->kind) {
	case CONFIG_SIZE_OR_PERCENT:
	case CONFIG_SIZE:
		if (value == CONFIG_UNLIMITED)
			snprintf(buf, size, "unlimited");
		else if (value == CONFIG_AUTO)
			snprintf(buf, size, "auto");
		else
			format_exact(value, size_factors, size_units, buf, size);
		break;
	case CONFIG_PERCENT:
		format_percent(value, buf, size);
		if (value > 0 && value < 1000) /* a reader would ask about 0.7 */
			strncat(buf, "%", size - strlen(buf) - 1);
		break;
	case CONFIG_CHOICE:
		format_choice(key->choices, value, buf, size);
		break;
	case CONFIG_COUNT:
		if (value == CONFIG_AUTO && *key->choices)
			snprintf(buf, size, "%s", key->choices);
		else
			snprintf(buf, size, "%" PRIu64, value);
		break;
	case CONFIG_BOOL:
		snprintf(buf, size, "%s",
		         value == CONFIG_AUTO ? key->choices
		         : value              ? "yes"
		                              : "no");
		break;
	case CONFIG_DURATION:
		if (value == CONFIG_NEVER && *key->choices)
			snprintf(buf, size, "%s", key->choices);
		else
			format_exact(value, time_factors, time_units, buf, size);
		break;
	}
	return buf;
}
