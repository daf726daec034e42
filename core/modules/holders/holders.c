/* SPDX-License-Identifier: MIT */
/*
 * Holders: which calls of the program hold a GPU's memory, when the program is refused some. Rules:
 * runs inside the user's process, within its calls; the caller holds no lock, and no
 * driver is called.
 *
 * site    where the program allocates: the module that calls the driver, and the offset of the call
 * holder  all memory of one site that is there now; memory without a site is held by its type
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/own_file.h"
#include "core/base/units.h"
#include "core/budget/refusal.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/own/own.h"
#include "core/memory/uses/counted.h"
#include "core/registry/actions.h"
#include "core/state/directory.h"

/* So many sites are told apart, and so many are said. */
enum { HOLDERS_MAX = 64, HOLDERS_SAID = 3 };
/* A file that has more bytes is emptied before the next line. */
enum { HOLDERS_FILE_MAX = 16384 };
/* The holders are summed up at most once in this time, however often the program is refused. */
#define HOLDERS_AGAIN_NS 1000000000ull

struct holder {
	const void *site; /* NULL: none is known */
	const char *type;
	uint64_t bytes, count, oldest_ns;
};

struct holders {
	int count;
	struct holder of[HOLDERS_MAX];
};

static char holders_path[PATH_MAX]; /* the file of the job's refusals; "": there is none */

static void holders_add(struct holders *holders, const struct holder *more)
{
	struct holder *holder = NULL;

	for (int i = 0; i < holders->count && !holder; i++)
		if (holders->of[i].site == more->site &&
		    (more->site || strcmp(holders->of[i].type, more->type) == 0))
			holder = &holders->of[i];
	if (!more->bytes || (!holder && holders->count == HOLDERS_MAX))
		return;
	if (!holder) {
		holder = &holders->of[holders->count++];
		*holder = (struct holder){more->site, more->type, 0, 0, more->oldest_ns};
	}
	holder->bytes += more->bytes;
	holder->count++;
	if (more->oldest_ns < holder->oldest_ns)
		holder->oldest_ns = more->oldest_ns;
}

static void holders_add_resource(void *cookie, const struct registry_entry *entry)
{
	const struct resource *resource = entry->resource;
	bool is_allocation = resource->type == &allocation_type;

	if (resource->type == &counted_type_reservation) /* addresses alone */
		return;
	holders_add(
	    cookie,
	    &(struct holder){
	        .site = is_allocation ? ((const struct allocation *)resource)->site : NULL,
	        .type = resource->type->name,
	        .bytes = resource->type->memory_used ? resource->type->memory_used(resource) : 0,
	        .oldest_ns = resource->born_ns});
}

/* Adds memory that the program made with cuMemCreate. */
static void holders_add_own(void *cookie, const void *site, uint64_t bytes, uint64_t born_ns)
{
	holders_add(cookie,
	            &(struct holder){
	                .site = site, .type = "own memory", .bytes = bytes, .oldest_ns = born_ns});
}

static int holders_by_bytes(const void *one, const void *other)
{
	const struct holder *a = one, *b = other;

	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

/* --- words --- */

struct place {
	const void *site;
	char *text;
	size_t size;
};

static int holders_find_module(struct dl_phdr_info *module, size_t size, void *cookie)
{
	const struct place *place = cookie;
	uintptr_t offset = (uintptr_t)place->site - module->dlpi_addr;

	(void)size;
	for (int i = 0; i < module->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &module->dlpi_phdr[i];
		const char *name = module->dlpi_name, *slash = strrchr(name, '/');

		if (part->p_type != PT_LOAD || offset < part->p_vaddr ||
		    offset - part->p_vaddr >= part->p_memsz)
			continue;
		name = *name ? slash ? slash + 1 : name : program_invocation_short_name;
		snprintf(place->text, place->size, "%s+0x%" PRIxPTR, name, offset);
		return 1;
	}
	return 0;
}

static void holders_name(const struct holder *holder, char *text, size_t size)
{
	snprintf(text, size, "%s", holder->site ? "generated code" : holder->type);
	if (holder->site)
		dl_iterate_phdr(holders_find_module, &(struct place){holder->site, text, size});
}

/* Adds the largest ones to a text. */
static void holders_say(const struct holders *holders, char *text, size_t size)
{
	uint64_t now = clock_now();
	size_t used = strlen(text);

	for (int i = 0; i < holders->count && i < HOLDERS_SAID && used < size; i++) {
		const struct holder *holder = &holders->of[i];
		char bytes[32], age[32], name[96];

		holders_name(holder, name, sizeof(name));
		used += (size_t)snprintf(
		    text + used, size - used, "%s %s by %s (%" PRIu64 ", oldest %s)",
		    i ? "," : " Largest holders:",
		    units_format_size(holder->bytes, bytes, sizeof(bytes)), name, holder->count,
		    units_format_duration(now > holder->oldest_ns ? now - holder->oldest_ns : 0,
		                          age, sizeof(age)));
	}
	if (holders->count && used + 1 < size)
		snprintf(text + used, size - used, ".");
}

/* --- the file --- */

/* Appends a line to the job's file. One that is full begins anew. */
static void holders_keep(const struct refusal *refusal)
{
	char line[1024], at[32];
	time_t now = (time_t)(refusal->at_ns / 1000000000);
	struct tm parts;
	int cancel, length, fd;

	if (!holders_path[0] || !gmtime_r(&now, &parts))
		return;
	strftime(at, sizeof(at), "%Y-%m-%d %H:%M:%S", &parts);
	length = snprintf(line, sizeof(line), "%s.%03d UTC: process %d, gpu %d: %s%s\n", at,
	                  (int)(refusal->at_ns % 1000000000 / 1000000), (int)getpid(),
	                  refusal->device->id.ordinal, refusal->text, refusal->more);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = own_file_open(AT_FDCWD, holders_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
	if (fd >= 0) {
		if (lseek(fd, 0, SEEK_END) > HOLDERS_FILE_MAX && ftruncate(fd, 0) != 0)
			length = 0;
		if (write(fd, line, (size_t)length) != length)
			holders_path[0] = '\0'; /* a full disk stays full */
		close(fd);
	}
	pthread_setcancelstate(cancel, NULL);
}

static int holders_refused(void *cookie, void *subject)
{
	static _Atomic uint64_t said_ns;
	struct refusal *refusal = subject;
	uint64_t now = clock_now(), before = atomic_load(&said_ns);
	struct holders *holders;
	int saved = errno;

	(void)cookie;
	if ((before && now - before < HOLDERS_AGAIN_NS) ||
	    !atomic_compare_exchange_strong(&said_ns, &before, now) ||
	    !(holders = calloc(1, sizeof(*holders)))) {
		errno = saved;
		return CUDA_SUCCESS;
	}
	registry_walk(refusal->device->registry, holders_add_resource, holders);
	own_walk(refusal->device, holders_add_own, holders);
	qsort(holders->of, (size_t)holders->count, sizeof(*holders->of), holders_by_bytes);
	holders_say(holders, refusal->more, sizeof(refusal->more));
	free(holders);
	holders_keep(refusal);
	errno = saved;
	return CUDA_SUCCESS;
}

static void holders_start(bool *has_started)
{
	static const struct action refused = {ACTION_RESOURCES, "holders", holders_refused, NULL};

	*has_started &= action_add(ACTION_REFUSED, &refused) == 0;
	if (!this_job.segment ||
	    directory_refused_path(this_job.config.name, holders_path, sizeof(holders_path)) != 0)
		holders_path[0] = '\0';
}

const struct module module_holders = {.name = "holders", .start = holders_start};
