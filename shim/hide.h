/* SPDX-License-Identifier: MIT */
/* Taking symbols out of this library's dynamic symbol table. */
#ifndef SPILLWAY_SHIM_HIDE_H
#define SPILLWAY_SHIM_HIDE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Takes missing symbols out: is_missing() is asked for each symbol, with the address it leads to.
 */
void shim_hide(bool (*is_missing)(const char *symbol, uintptr_t address));

#endif
