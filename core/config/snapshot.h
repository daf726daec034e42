/* SPDX-License-Identifier: MIT */
/*
 * The declarations that the files of core/config share; no other file includes it.
 *
 * setting   one key of one layer and selector, as written, with its place
 * place     where text came from: file and line, or the name of an environment variable and line 0.
 *           Line -1: the name says it all
 * item      one finding of the reader: the beginning of a section, or a key in it
 *
 * All of this runs inside the user's process: no exit, no stdout, every allocation is checked,
 * descriptors are CLOEXEC, nothing global changes.
 */
#ifndef SPILLWAY_CONFIG_SNAPSHOT_H
#define SPILLWAY_CONFIG_SNAPSHOT_H

#include <string.h>

#include "core/config/config.h"

struct config_place {
	const char *file;
	int line;
};

/* A finding of the reader, or a variable: its name is the key then. */
struct config_item {
	struct config_place place;
	const char *section; /* "": before any section */
	const char *key;     /* NULL: the section begins here */
	const char *value;
};

/* snapshot.c */
/* Fills *error with a message. */
int config_fail(struct config_error *error, int status, struct config_place place,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
/*
 * Returns -EINVAL and says "FILE:LINE: key = value: problem", or "NAME = value: problem" for a
 * variable.
 */
int config_fail_value(struct config_error *error, const struct config_item *item,
                      const char *problem);
/* Returns -EINVAL and says so where the module of the key is not built in; else 0. */
int config_fail_lacking(const char *key, const struct config_item *item,
                        struct config_error *error);

/* selector.c */
enum { CONFIG_SECTION_MAX = 49 }; /* bytes; inih 55 cuts longer names */

struct config_selector {
	enum { SELECT_ALL, SELECT_ORDINAL, SELECT_PCI, SELECT_UUID } kind;
	int ordinal;
	uint64_t pci; /* domain, bus, device, function packed */
	char uuid[CONFIG_SECTION_MAX + 1];
};

int config_selector_parse(const char *text, struct config_selector *selector); /* 0 or -EINVAL */
bool config_selector_equal(const struct config_selector *a, const struct config_selector *b);
bool config_selector_matches(const struct config_selector *selector,
                             const struct config_device *device);

/* The keys of [job], which are the job's alone: X(name, variable). */
#define CONFIG_JOB_KEYS(X)                     \
	X(name, "SPILLWAY_JOB")                \
	X(labels, "SPILLWAY_LABELS")           \
	X(nvml, "SPILLWAY_NVML")               \
	X(status_file, "SPILLWAY_STATUS_FILE") \
	X(region, "SPILLWAY_REGION")

enum config_job_key {
#define X(name, variable) JOB_KEY_##name,
	CONFIG_JOB_KEYS(X)
#undef X
	    JOB_KEY_COUNT
};

/* The keys of [ceiling] besides those of [gpu]: X(name, choices). The first is the default; "": the
 * value is a path; CONFIG_USERS: numbers of users; CONFIG_BYTES: a size, or a part of the GPU's. */
#define CONFIG_USERS "users"
#define CONFIG_BYTES "bytes"
#define CONFIG_CEILING_KEYS(X)      \
	X(enforce, "no|yes")        \
	X(per, "job|user")          \
	X(required, "no|yes")       \
	X(state_dir, "")            \
	X(guaranteed, CONFIG_USERS) \
	X(reserve, CONFIG_BYTES)

enum config_ceiling_key {
#define X(name, choices) CEILING_KEY_##name,
	CONFIG_CEILING_KEYS(X)
#undef X
	    CEILING_KEY_COUNT
};
/* Returns whether the user is one of such a list; "": every user is. */
bool config_lists_user(const char *list, uid_t user);

/* value.c */
struct config_value {
	uint64_t number;
	bool of_memory; /* number is thousandths of a percent of the device's memory */
};

/* A row of CONFIG_GPU_KEYS. Texts, not pointers, which the loader would have to write in every
 * process. */
struct config_key_row {
	char name[20], builtin[12], choices[32];
	enum config_bound bound;
	enum config_kind kind;
};
extern const struct config_key_row config_keys[CONFIG_KEY_COUNT];

/* Says why a text is no value: "expected ...". */
struct config_problem {
	char text[192];
};

/* Parses a value as programs write it. Returns 0 or -EINVAL. */
int config_value_parse(enum config_key key, const char *text, struct config_value *value,
                       struct config_problem *problem);
/* Returns whether a text, written by a person, lacks its unit. The problem asks which was meant. */
bool config_value_lacks_unit(enum config_key key, const char *text, struct config_problem *problem);
/* Parses the value of a key of [ceiling] alone, likewise; *is_other: it is not the default. */
int config_ceiling_parse(enum config_ceiling_key key, const char *text, bool *is_other,
                         struct config_problem *problem);

/* snapshot.c */
enum config_layer {
	LAYER_HAMI_DEFAULTS, /* of libvgpu.so, in place of the built-in values */
	LAYER_SYSTEM,
	LAYER_FILE,
	LAYER_HAMI,
	LAYER_ENVIRONMENT,
	LAYER_MONITOR, /* settings of HAMi's monitor */
	LAYER_OVERRIDE,
	LAYER_PAUSE,   /* of `pause`: a share of 0, and evict */
	LAYER_CEILING, /* not a source of values: clamps those of all other layers */
	LAYER_LIMITS,  /* likewise: the job's room in its cgroup */
	CONFIG_LAYERS
};

struct config_setting {
	enum config_layer layer;
	enum config_key key;
	struct config_selector selector;
	struct config_value value;
	struct config_place place;
	char *text;   /* the value as written */
	char *origin; /* the place, for people */
};

struct config {
	struct config_setting *settings;
	size_t count, capacity;
	struct config_job job;
	bool is_per_user, requires; /* of [ceiling] */
	char state_dir[CONFIG_STATE_DIR_MAX];
	char guaranteed[CONFIG_USERS_MAX]; /* the users that may be; "": all */
	struct config_value reserve;       /* of each device */
	bool is_machines[JOB_KEY_COUNT];   /* the machine's file gives this key of [job] */
	bool has_file;
	/* The text that is in force of each layer that is a file; NULL: none. */
	char *text_of[CONFIG_LAYERS];
	/* The memory of the texts of `job`; NULL: they are built in. */
	char *nvml_origin, *warnings;
};

struct config *config_create(void); /* NULL: no memory */
/* Finds the setting of exactly this layer, key and selector, or NULL. */
const struct config_setting *config_find(const struct config *config, enum config_layer layer,
                                         enum config_key key,
                                         const struct config_selector *selector);
/*
 * Parses an item and adds it as a setting, of which layer, key and selector are given. 0 or a
 * negative errno.
 */
int config_add(struct config *config, struct config_setting setting, const struct config_item *item,
               struct config_error *error);
/* Takes the value of a key of [job]. 0 or a negative errno. */
int config_set_job(struct config *config, enum config_job_key key, const struct config_item *item,
                   struct config_error *error);
/* Returns whether the machine's file, being enforced, alone sets the key. */
bool config_job_is_bound(const struct config *config, enum config_job_key key);
int config_warn(struct config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* 0 or -ENOMEM */

/* override.c */
struct config_cause override_read_cause(const char *text);

/* reader.c */
/* Loads all of a small regular file, NUL-terminated; free it. Returns 0 or a negative errno. */
int config_file_load(const char *path, bool follow_symlink, char **text, size_t *length);

typedef int (*config_item_handler)(void *cookie, const struct config_item *item,
                                   struct config_error *error);
/* Calls handler() for each item of NUL-terminated text until it fails. 0 or the first failure. */
int config_read(const char *file, const char *text, size_t length, config_item_handler handler,
                void *cookie, struct config_error *error);

/* sections.c */
/* Adds INI text to a layer of a snapshot. 0 or a negative errno with *error filled. */
int config_add_text(struct config *config, enum config_layer layer, const char *file,
                    const char *text, size_t length, struct config_error *error);
/* Returns whether a section is "gpu" or "gpu SELECTOR"; *selector is the rest then. */
static inline bool config_section_is_gpu(const char *section, const char **selector)
{
	if (strncmp(section, "gpu", 3) != 0 || (section[3] != '\0' && section[3] != ' '))
		return false;
	*selector = section + 3 + strspn(section + 3, " ");
	return true;
}

/* Adds the settings of the environment (environment.c). */
int config_add_environment(struct config *config, char *const *environment,
                           struct config_error *error);

/* Letters of names and labels. */
#define CONFIG_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* resolve.c */
/* Contradictions between settings that meet on some device; ceilings that bind give warnings. */
int config_check(struct config *config, struct config_error *error);

#endif
