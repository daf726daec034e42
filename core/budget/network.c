/* SPDX-License-Identifier: MIT */
/*
 * Network libraries, and whether the process can register memory. Rules: runs inside the user's
 * process, within its calls.
 *
 * The libraries are known by the return address of the call, as the guard knows the driver:
 * allocations by a runtime that is linked into them count as theirs. The loader is asked for the
 * place of a caller's code when it is first met. Should that library be unloaded, and one of these
 * libraries be loaded there, the answer is out of date.
 */
#include "core/budget/network.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/log.h"

_Atomic uint64_t network_stranger;

/* As many pieces of code are remembered of each sort; of more, the last. */
enum { KNOWN_MAX = 8 };

struct known {
	_Atomic uint64_t pages[KNOWN_MAX];
	_Atomic unsigned int next;
};
static struct known strangers, libraries;

static bool knows(const struct known *known, const void *caller)
{
	for (int i = 0; i < KNOWN_MAX; i++)
		if (network_is_in(atomic_load_explicit(&known->pages[i], memory_order_relaxed),
		                  caller))
			return true;
	return false;
}

/* --- the owner of code --- */

struct code {
	uintptr_t caller, begin, end;
	bool is_network;
};

static bool is_named_like_one(const char *path)
{
	static const char names[][12] = {"libnccl", "libucp",     "libucs",    "libuct",
	                                 "libucm",  "libnvshmem", "libcufile", "libfabric"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static int network_look_at(struct dl_phdr_info *library, size_t size, void *cookie)
{
	struct code *code = cookie;
	uintptr_t begin = UINTPTR_MAX, end = 0;

	(void)size;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		uintptr_t at = library->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + part->p_memsz > end ? at + part->p_memsz : end;
	}
	if (code->caller < begin || code->caller >= end)
		return 0;
	code->begin = begin;
	code->end = end;
	code->is_network = library->dlpi_name && is_named_like_one(library->dlpi_name);
	return 1;
}

static void remember(struct known *known, const struct code *code)
{
	uint64_t first = code->begin >> NETWORK_PAGE_BITS;
	uint64_t count = ((code->end - 1) >> NETWORK_PAGE_BITS) + 1 - first;
	uint64_t pages = first << NETWORK_COUNT_BITS | count;
	unsigned int i = atomic_fetch_add(&known->next, 1) % KNOWN_MAX;
	uint64_t nobody = 0;

	atomic_store_explicit(&known->pages[i], pages, memory_order_relaxed);
	if (known == &strangers)
		atomic_compare_exchange_strong(&network_stranger, &nobody, pages);
}

static bool is_network(const void *caller)
{
	/* Code that a program compiled itself is in no file: its page is known. */
	struct code code = {
	    .caller = (uintptr_t)caller, .begin = (uintptr_t)caller, .end = (uintptr_t)caller + 1};

	if (knows(&libraries, caller))
		return true;
	if (knows(&strangers, caller))
		return false;
	dl_iterate_phdr(network_look_at, &code);
	remember(code.is_network ? &libraries : &strangers, &code);
	return code.is_network;
}

/* --- descriptors --- */

struct entry { /* of getdents64(2) */
	uint64_t inode, next;
	unsigned short length;
	unsigned char type;
	char name[];
};

static bool leads_to(int directory, const char *name, const char *root)
{
	static const char devices[][24] = {"/dev/infiniband/uverbs", "/dev/nvidia-fs"};
	size_t at = strlen(root);
	char target[256];
	ssize_t length = readlinkat(directory, name, target, sizeof(target) - 1);

	if (length <= 0)
		return false;
	target[length] = '\0';
	if (strncmp(target, root, at) != 0)
		return false;
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
		if (strncmp(target + at, devices[i], strlen(devices[i])) == 0)
			return true;
	return false;
}

static bool any_leads_to(int directory, const char *root)
{
	char list[2048] __attribute__((aligned(8)));
	long got;

	while ((got = syscall(SYS_getdents64, directory, list, sizeof(list))) > 0)
		for (long at = 0; at < got;) {
			const struct entry *entry = (const struct entry *)(list + at);

			if (leads_to(directory, entry->name, root))
				return true;
			at += entry->length;
		}
	return false;
}

/*
 * Returns whether there is a device to be opened. Libraries ask at each message: where there is
 * none, descriptors need not be gone through.
 */
static bool network_is_there(const char *root)
{
	enum { DISKS = 16 }; /* as many as nvidia-fs makes */
	char path[PATH_MAX];
	bool found;

	snprintf(path, sizeof(path), "%s/dev/infiniband", root);
	found = access(path, F_OK) == 0;
	for (int i = 0; !found && i < DISKS; i++) {
		snprintf(path, sizeof(path), "%s/dev/nvidia-fs%d", root, i);
		found = access(path, F_OK) == 0;
	}
	return found;
}

bool network_is_open(const char *root)
{
	static _Atomic bool was_open;
	int directory, cancel, kept = errno;

	if (atomic_load_explicit(&was_open, memory_order_relaxed))
		return true;
	/* No allocation is a place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	directory =
	    network_is_there(root) ? open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (directory >= 0) {
		if (any_leads_to(directory, root))
			atomic_store_explicit(&was_open, true, memory_order_relaxed);
		close(directory);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = kept;
	return atomic_load_explicit(&was_open, memory_order_relaxed);
}

bool network_looks(const void *caller)
{
	if (!is_network(caller) || !network_is_open(""))
		return false;
	log_once(LOG_INFO, "memory of the network's libraries stays on the GPU (pin_new = auto)");
	return true;
}
