/* SPDX-License-Identifier: MIT */
/*
 * Hides the entry points that the driver at hand lacks, so that dlsym answers as it would without
 * us.
 *
 * A program that probes for features by dlsym must find NULL, and dlerror() must give the reason.
 * So the symbols are taken out of our own dynamic symbol table: the loader passes over those
 * without a value. (An indirect function that yields NULL would leave dlerror() empty, on which
 * Python's ctypes crashes.) It happens when the driver is opened. That is by dlopen of its name at
 * the latest, before the program can probe. References bound before that lead to the trampoline and
 * CUDA_ERROR_NOT_SUPPORTED.
 *
 * Seen with glibc 2.31 and 2.36, Python 3.9 and 3.11; a lazily bound direct call even jumps to
 * NULL. A program that bypasses our dlopen (RTLD_DEEPBIND) finds the trampoline, too.
 */
#include "shim/hide.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/lock.h"
#include "core/base/log.h"

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/*
 * Returns the address that an entry holds: glibc adds the load address to the pointers of a dynamic
 * section in place, on most machines.
 */
static uintptr_t hide_address_of(const ElfW(Dyn) * entry)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;

	return entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
}

struct table {
	ElfW(Sym) * symbols;
	const char *names;
	size_t count;
};

static bool find_table(struct table *table)
{
	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			table->symbols = (ElfW(Sym) *)hide_address_of(d);
		else if (d->d_tag == DT_STRTAB)
			table->names = (const char *)hide_address_of(d);
		else if (d->d_tag == DT_HASH) /* buckets, chains; one chain per symbol */
			table->count = ((const ElfW(Word) *)hide_address_of(d))[1];
	}
	return table->symbols && table->names && table->count;
}

/* Makes the pages of the table writable, or read-only again. */
static bool protect(const struct table *table, int rights)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)table->symbols & ~(page - 1);

	return mprotect((void *)first, (uintptr_t)(table->symbols + table->count) - first,
	                rights) == 0;
}

void shim_hide(bool (*is_missing)(const char *symbol, uintptr_t address))
{
	/*
	 * The driver and NVML may be opened at once: neither thread makes the table read-only under
	 * the other.
	 */
	static LOCK_OF(LEAF) lock = LOCK_FREE;
	struct table table = {0};
	bool is_writable = false;

	if (!find_table(&table))
		return;
	lock_acquire(&lock);
	for (size_t i = 1; i < table.count; i++) {
		ElfW(Sym) *symbol = &table.symbols[i];

		if (!symbol->st_value || !is_missing(table.names + symbol->st_name,
		                                     (uintptr_t)&__ehdr_start + symbol->st_value))
			continue;
		is_writable = is_writable || protect(&table, PROT_READ | PROT_WRITE);
		if (!is_writable) {
			log_debug("symbols the driver lacks cannot be hidden from dlsym");
			break;
		}
		/* One store: another thread may be looking symbols up. */
		__atomic_store_n(&symbol->st_value, 0, __ATOMIC_RELAXED);
	}
	if (is_writable)
		protect(&table, PROT_READ);
	lock_release(&lock);
}
