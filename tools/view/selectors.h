/* SPDX-License-Identifier: MIT */
/*
 * Which GPUs a selector names: the argument of --limit-gpu, and the text in [gpu SELECTOR]. For
 * example, "GPU-8f3a" names the GPU with the UUID that begins so.
 */
#ifndef SPILLWAY_SELECTORS_H
#define SPILLWAY_SELECTORS_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/state/segment.h"

/* Lists the job's devices. Returns how many they are. */
int selectors_devices(const struct segment_view *view,
                      struct config_device device[SEGMENT_DEVICES]);
/* Returns "0 (GPU-5ac3..., 0000:3b:00.0), 1 (...)"; the caller frees it. */
char *selectors_list(const struct config_device *device, int count);
bool selectors_name_any(const char *selector, const struct config_device *device, int count);
/* Calls idle() once for each [gpu SELECTOR] of an INI file that names none of the devices. */
void selectors_check(const char *path, const struct config_device *device, int count,
                     void (*idle)(const char *path, const char *selector));

#endif
