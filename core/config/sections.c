/* SPDX-License-Identifier: MIT */
/* Sections: the meaning of [job], [gpu SELECTOR] and [ceiling] of an INI file. */
#include "core/config/snapshot.h"

#include "core/base/nearest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const job_keys[] = {
#define X(name, variable) #name,
    CONFIG_JOB_KEYS(X)
#undef X
        NULL};

static const char *const ceiling_keys[] = {
#define X(name, choices) #name,
    CONFIG_CEILING_KEYS(X)
#undef X
        NULL};

struct target {
	struct config *config;
	enum config_layer layer;
	/* Where each key was seen in this file; 0: not. */
	int job_line[JOB_KEY_COUNT], ceiling_line[CEILING_KEY_COUNT];
};

static const char *const section_names[] = {"job", "gpu", "ceiling", NULL};

static int sections_index_of(const char *word, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

/* Finds the key that was meant by a word that is near its name or near an old spelling. */
static const char *nearest_key(const char *word, const char *const *known)
{
	const char *spelling, *meant = nearest_word(word, known);
	enum config_key key;

	for (int i = 0; !meant && (spelling = config_old_spelling(i, &key)); i++)
		if (nearest_distance(word, spelling) <= NEAREST_SLIP &&
		    sections_index_of(config_key_name(key), known) >= 0)
			meant = config_key_name(key);
	return meant;
}

/*
 * Lists the names of all keys of [gpu], or of those that a ceiling may bind; NULL-terminated.
 * Returns how many they are.
 */
static int list_keys(bool of_ceiling, const char *names[CONFIG_KEY_COUNT + 1])
{
	int count = 0;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (!of_ceiling || config_keys[key].bound == CONFIG_CEILING)
			names[count++] = config_keys[key].name;
	names[count] = NULL;
	return count;
}

/* Finds the section that a key, or one spelt nearly so, belongs to. Returns whether there is one.
 */
static bool sections_home_of(const char *key, const char **section, const char **meant)
{
	const char *gpu_keys[CONFIG_KEY_COUNT + 1];

	list_keys(false, gpu_keys);
	*section = "gpu";
	*meant = nearest_key(key, gpu_keys);
	if (*meant)
		return true;
	*section = "job";
	*meant = nearest_word(key, job_keys);
	if (*meant)
		return true;
	*section = "ceiling";
	*meant = nearest_word(key, ceiling_keys);
	return *meant != NULL;
}

static void list_words(const char *const *words, char *list, size_t size)
{
	size_t used = 0;

	for (list[0] = '\0'; *words && used < size; words++)
		used +=
		    (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "", *words);
}

static int fail_unknown_section(struct config_error *error, const struct config_item *item)
{
	const char *meant = nearest_word(item->section, section_names);
	char list[256];

	list_words(section_names, list, sizeof(list));
	return config_fail(error, -EINVAL, item->place,
	                   "[%s]: unknown section%s%s%s; expected one of %s", item->section,
	                   meant ? ", did you mean " : "", meant ? meant : "", meant ? "?" : "",
	                   list);
}

static int fail_unknown(struct config_error *error, const struct config_item *item,
                        const char *const *known)
{
	const char *meant = nearest_key(item->key, known), *section, *elsewhere;
	char hint[128] = "", list[256];

	if (meant)
		snprintf(hint, sizeof(hint), ", did you mean %s?", meant);
	else if (sections_home_of(item->key, &section, &elsewhere) &&
	         strcmp(item->key, elsewhere) == 0)
		return config_fail(error, -EINVAL, item->place, "%s: belongs to [%s], not to [%s]",
		                   item->key, section, item->section);
	else if (sections_home_of(item->key, &section, &elsewhere))
		snprintf(hint, sizeof(hint), ", did you mean %s, which belongs to [%s]?", elsewhere,
		         section);
	list_words(known, list, sizeof(list));
	return config_fail(error, -EINVAL, item->place,
	                   "%s: unknown key in [%s]%s; expected one of %s", item->key,
	                   item->section, hint, list);
}

static int fail_repeated(struct config_error *error, const struct config_item *item, int line)
{
	return config_fail(error, -EINVAL, item->place,
	                   "%s = %s: already set in line %d; expected each key once", item->key,
	                   item->value, line);
}

/* Finds a misspelt or misplaced section even when it is empty. */
static int sections_begin_section(const struct target *target, const struct config_item *item,
                                  struct config_error *error)
{
	struct config_selector selector;
	const char *name;

	if (config_section_is_gpu(item->section, &name)) {
		if (config_selector_parse(name, &selector) != 0)
			return config_fail(
			    error, -EINVAL, item->place,
			    "[%s]: expected an ordinal such as 0, a UUID such as GPU-5ac3..., or "
			    "a PCI bus id such as 0000:3b:00.0 after gpu",
			    item->section);
		return 0;
	}
	if (sections_index_of(item->section, section_names) < 0)
		return fail_unknown_section(error, item);
	if (strcmp(item->section, "ceiling") == 0 && target->layer != LAYER_SYSTEM)
		return config_fail(error, -EINVAL, item->place,
		                   "[ceiling]: expected in %s alone, where the administrator sets "
		                   "it",
		                   CONFIG_SYSTEM_FILE);
	return 0;
}

static int take_job(struct target *target, const struct config_item *item,
                    struct config_error *error)
{
	int key = sections_index_of(item->key, job_keys);

	if (key < 0)
		return fail_unknown(error, item, job_keys);
	if (target->job_line[key] > 0)
		return fail_repeated(error, item, target->job_line[key]);
	target->job_line[key] = item->place.line;
	target->config->is_machines[key] |= target->layer == LAYER_SYSTEM;
	/* The override file is found by the name. */
	if (key == JOB_KEY_name && target->layer == LAYER_OVERRIDE)
		return config_fail_value(error, item, "a running job cannot be renamed");
	if (target->layer != LAYER_SYSTEM &&
	    config_job_is_bound(target->config, (enum config_job_key)key))
		return 0;
	return config_set_job(target->config, (enum config_job_key)key, item, error);
}

/* Takes a key of [ceiling] that says how the file is to be kept to. */
static int take_ceiling(struct target *target, const struct config_item *item, int key,
                        struct config_error *error)
{
	struct config *config = target->config;
	struct config_problem problem;
	bool is_other;

	if (target->ceiling_line[key] > 0)
		return fail_repeated(error, item, target->ceiling_line[key]);
	target->ceiling_line[key] = item->place.line;
	if (config_fail_lacking(item->key, item, error) != 0)
		return -EINVAL;
	if (config_ceiling_parse((enum config_ceiling_key)key, item->value, &is_other, &problem))
		return config_fail_value(error, item, problem.text);
	switch (key) {
	case CEILING_KEY_enforce:
		config->job.enforces = is_other;
		break;
	case CEILING_KEY_per:
		config->is_per_user = is_other;
		break;
	case CEILING_KEY_required:
		config->requires
		= is_other;
		break;
	case CEILING_KEY_state_dir:
		strcpy(config->state_dir, item->value);
		break;
	case CEILING_KEY_guaranteed:
		strcpy(config->guaranteed, item->value);
		break;
	case CEILING_KEY_reserve:
		config_value_parse(CONFIG_KEY_memory, item->value, &config->reserve, &problem);
		break;
	}
	return 0;
}

static int take_setting(struct target *target, const struct config_item *item,
                        enum config_layer layer, const char *selector_text,
                        struct config_error *error)
{
	struct config_setting setting = {.layer = layer, .key = config_find_key(item->key)};
	const struct config_setting *other;
	const char *known[(int)CONFIG_KEY_COUNT + CEILING_KEY_COUNT + 1];
	int count = list_keys(layer == LAYER_CEILING, known);

	if (layer == LAYER_CEILING) /* with the NULL at their end */
		memcpy(known + count, ceiling_keys, sizeof(ceiling_keys));
	if (setting.key == CONFIG_KEY_COUNT ||
	    sections_index_of(config_key_name(setting.key), known) < 0)
		return fail_unknown(error, item, known);
	config_selector_parse(selector_text,
	                      &setting.selector); /* sections_begin_section() has checked it */
	other = config_find(target->config, layer, setting.key, &setting.selector);
	if (other)
		return fail_repeated(error, item, other->place.line);
	return config_add(target->config, setting, item, error);
}

static int take_item(void *cookie, const struct config_item *item, struct config_error *error)
{
	struct target *target = cookie;
	const char *selector;
	int key;

	if (!item->key)
		return sections_begin_section(target, item, error);
	if (item->section[0] == '\0')
		return config_fail(error, -EINVAL, item->place,
		                   "%s = %s: expected a section such as [gpu] before the first key",
		                   item->key, item->value);
	if (config_section_is_gpu(item->section, &selector))
		return take_setting(target, item, target->layer, selector, error);
	if (strcmp(item->section, "ceiling") != 0)
		return take_job(target, item, error);
	key = sections_index_of(item->key, ceiling_keys);
	if (key >= 0)
		return take_ceiling(target, item, key, error);
	return take_setting(target, item, LAYER_CEILING, "", error);
}

int config_add_text(struct config *config, enum config_layer layer, const char *file,
                    const char *text, size_t length, struct config_error *error)
{
	struct target target = {.config = config, .layer = layer};

	return config_read(file, text, length, take_item, &target, error);
}
