/*
 * The limits that `run` and `set` take as options, as one argp child parser.
 */
#ifndef SPILLWAY_SETTINGS_H
#define SPILLWAY_SETTINGS_H

#include <argp.h>
#include <stdbool.h>

#include "core/base/deadline.h"
#include "core/config/config.h"

struct settings {
	const char *selector;                /* --limit-gpu; "" is every GPU */
	const char *value[CONFIG_KEY_COUNT]; /* as given; NULL: left alone */
};

/* Checks each value as the INI would; its input is a struct settings. */
extern const struct argp settings_argp;
/* Makes its options of the keys that have one; before it is used. */
void settings_list_options(void);

bool settings_any(const struct settings *settings);
/*
 * Merges them into an override file, waiting for others who write to it until the deadline. False
 * after saying why not.
 */
bool settings_write(const struct settings *settings, const char *path, struct deadline *deadline);
/* Returns whether all of them stand in an override file already, as they are written. */
bool settings_stand(const struct settings *settings, const char *path);

#endif
