/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's limits of memory by cgroup, as MPS v3 documents them, on a tree of files like the
 * kernel's (SOFTGPU_CGROUP). It is an imitation: no driver that has them was at hand.
 *
 * hard limit  dmem.max: an allocation that exceeds that of any level is refused
 * soft limit  dmem.min of the leaf: a process beyond it is ended when another one, within its own,
 *             finds no room on the device
 * total       what cuMemGetInfo tells: dmem.max of the leaf; with a limit on a parent alone it is
 *             the whole device's, though the limit holds
 */
#include "tests/softgpu/machine_books.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/softgpu/identity.h"

/* Reads what a file of a directory says of a device; otherwise, where it says nothing. */
static uint64_t limiter_read(const char *directory, const char *file, int device,
                             uint64_t otherwise)
{
	char path[MACHINE_CGROUP + 16], line[128], name[48];
	size_t length = (size_t)snprintf(name, sizeof(name), "nvidia/0000:%02X:00.0/vidmem ",
	                                 device_pci_bus(device));
	uint64_t value = otherwise;
	snprintf(path, sizeof(path), "%s/%s", directory, file);
	FILE *in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in))
		if (strncasecmp(line, name, length) == 0)
			value = strncmp(line + length, "max", 3) == 0
			            ? UINT64_MAX
			            : strtoull(line + length, NULL, 10);
	if (in)
		fclose(in);
	return value;
}

static bool limiter_has_files(const char *directory)
{
	char path[MACHINE_CGROUP + 16];
	snprintf(path, sizeof(path), "%s/dmem.max", directory);
	return access(path, F_OK) == 0;
}

/* Returns whether a cgroup is a directory or lies below it. */
static bool limiter_is_below(const char *cgroup, const char *directory)
{
	size_t length = strlen(directory);
	return strncmp(cgroup, directory, length) == 0 &&
	       (cgroup[length] == '\0' || cgroup[length] == '/');
}

static uint64_t limiter_used(const struct machine *books, const char *directory, int device)
{
	uint64_t used = 0;
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (books->processes[i].pid &&
		    limiter_is_below(books->processes[i].cgroup, directory))
			used += books->processes[i].device[device].physical;
	return used;
}

/* Goes one level up. Returns false above the last one that has limits. */
static bool limiter_up(char *directory)
{
	char *slash = strrchr(directory, '/');
	if (!slash || slash == directory)
		return false;
	*slash = '\0';
	return limiter_has_files(directory);
}

void limiter_note(const struct machine *books, const char *cgroup)
{
	char directory[MACHINE_CGROUP], path[MACHINE_CGROUP + 16];
	if (!*cgroup)
		return;
	snprintf(directory, sizeof(directory), "%s", cgroup);
	do {
		snprintf(path, sizeof(path), "%s/dmem.current", directory);
		FILE *out = fopen(path, "we");
		for (int i = 0; out && i < books->device_count; i++)
			fprintf(out, "nvidia/0000:%02X:00.0/vidmem %" PRIu64 "\n",
			        device_pci_bus(i), limiter_used(books, directory, i));
		if (out)
			fclose(out);
	} while (limiter_up(directory));
}

bool limiter_allows(const struct machine *books, int device, uint64_t bytes)
{
	char directory[MACHINE_CGROUP];
	if (!*self->cgroup)
		return true;
	snprintf(directory, sizeof(directory), "%s", self->cgroup);
	do {
		uint64_t most = limiter_read(directory, "dmem.max", device, UINT64_MAX);
		uint64_t used = limiter_used(books, directory, device);
		if (used > most || bytes > most - used) {
			say("%" PRIu64 " bytes are refused by %s/dmem.max", bytes, directory);
			return false;
		}
	} while (limiter_up(directory));
	return true;
}

/* Finds the process that holds most of the cgroup that is farthest beyond its soft limit. */
static struct machine_process *limiter_borrower(struct machine *books, int device)
{
	struct machine_process *found = NULL;
	uint64_t most = 0;
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct machine_process *process = &books->processes[i];
		if (!process->pid || !*process->cgroup || !process->device[device].physical ||
		    limiter_is_below(process->cgroup, self->cgroup))
			continue;
		uint64_t used = limiter_used(books, process->cgroup, device);
		uint64_t soft = limiter_read(process->cgroup, "dmem.min", device, 0);
		if (used > soft &&
		    (used - soft > most ||
		     (found && used - soft == most && strcmp(found->cgroup, process->cgroup) == 0 &&
		      process->device[device].physical > found->device[device].physical))) {
			most = used - soft;
			found = process;
		}
	}
	return found;
}

bool limiter_makes_room(struct machine *books, int device, uint64_t bytes)
{
	struct machine_process *borrower;
	if (!*self->cgroup ||
	    limiter_used(books, self->cgroup, device) + bytes >
	        limiter_read(self->cgroup, "dmem.min", device, 0) ||
	    !(borrower = limiter_borrower(books, device)))
		return false;
	say("process %d is ended: %s is beyond its dmem.min, and %s needs %" PRIu64 " bytes",
	    (int)borrower->pid, borrower->cgroup, self->cgroup, bytes);
	shares_forget(books, (int)(borrower - books->processes));
	for (int i = 0; i < MAX_DEVICES; i++)
		borrower->device[i].physical = 0;
	__atomic_store_n(&borrower->is_terminated, 1, __ATOMIC_RELEASE);
	limiter_note(books, borrower->cgroup);
	return true;
}

void limiter_memory(const struct machine *books, int device, uint64_t *free_bytes,
                    uint64_t *total_bytes)
{
	if (!*self->cgroup)
		return;
	uint64_t most = limiter_read(self->cgroup, "dmem.max", device, UINT64_MAX);
	uint64_t used = limiter_used(books, self->cgroup, device);
	uint64_t left = used < most ? most - used : 0;
	if (most >= *total_bytes)
		return;
	*total_bytes = most;
	*free_bytes = *free_bytes < left ? *free_bytes : left;
}
