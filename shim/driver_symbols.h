/* SPDX-License-Identifier: MIT */
/*
 * Finding a driver's functions: dlsym()'s answers, without asking it for each of hundreds.
 *
 * The driver's table is read where nothing but the driver itself can have a symbol: it needs none
 * but glibc's own libraries, and the symbol is a plain one. dlsym() is asked for the rest. For
 * example, the driver has no such table, the symbol is indirect or versioned, or the loader is
 * audited.
 */
#ifndef SPILLWAY_SHIM_DRIVER_SYMBOLS_H
#define SPILLWAY_SHIM_DRIVER_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver_symbols {
	void *handle;
	uintptr_t base;
	const ElfW(Sym) * symbol;
	const char *names;
	const ElfW(Half) * version; /* of each symbol; NULL: they have none */
	/* a GNU hash table; buckets NULL: dlsym() is asked for everything */
	const uint32_t *buckets, *chains;
	const ElfW(Addr) * filter;
	uint32_t bucket_count, first, filter_mask, filter_shift;
};

/* Reads the tables once, for a handle that dlopen() returned. */
void driver_symbols_read(struct driver_symbols *symbols, void *handle);
/* Returns dlsym(handle, name)'s answer. name: one that none of glibc's libraries has. */
void *driver_symbol(const struct driver_symbols *symbols, const char *name);

#endif
