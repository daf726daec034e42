/* SPDX-License-Identifier: MIT */
/*
 * The configuration as commands read it, to say what is wrong with it before a program runs under
 * it.
 */
#ifndef SPILLWAY_CONFIGURATION_H
#define SPILLWAY_CONFIGURATION_H

#include "core/config/config.h"

/* Returns the file that SPILLWAY_CONFIG names, or NULL. */
const char *configuration_file(void);
/* Says each line that the configuration warns of; say NULL: complains of it. */
void configuration_warn(const struct config *config, void (*say)(const char *line));

#endif
