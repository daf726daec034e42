/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver library about itself, in a child process that shares only the report with us: if
 * the child dies, its answers so far are kept.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/doctor/driver.h"
#include "tools/doctor/provider_probe.h"
#include "tools/view/tool.h"

enum { PROBE_SECONDS = 20 };

/* cuda.h renames functions to their newest form; the symbol's name must be that form's. */
#define NAME_OF(function)     #function
#define SYMBOL(lib, function) ((__typeof__(&(function)))doctor_driver_find(lib, NAME_OF(function)))

static struct driver_report *answer; /* shared with the parent */

static void *doctor_driver_find(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	probe_about_to(answer, name);
	if (symbol)
		return symbol;
	snprintf(answer->said, sizeof answer->said, "has no %s", name);
	_exit(1);
}

static void doctor_driver_check(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	snprintf(answer->said + strlen(answer->said), sizeof answer->said - strlen(answer->said),
	         " answers error %d%s", result,
	         result == CUDA_ERROR_NO_DEVICE ? " (no CUDA device)" : "");
	_exit(1);
}

static void doctor_driver_format_uuid(const CUuuid *uuid, char *buf, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(buf, size,
	         "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
	         b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
	         b[14], b[15]);
}

/*
 * Returns whether the device has it. An attribute that an old driver does not know is a feature it
 * does not have.
 */
static bool doctor_driver_has(void *library, CUdevice_attribute attribute, CUdevice handle)
{
	int value = 0;

	return SYMBOL(library, cuDeviceGetAttribute)(&value, attribute, handle) == CUDA_SUCCESS &&
	       value;
}

static void ask_device(void *library, int ordinal, struct config_device *device,
                       struct driver_features *features)
{
	CUdevice handle;
	CUuuid uuid;
	size_t memory;

	doctor_driver_check(SYMBOL(library, cuDeviceGet)(&handle, ordinal));
	doctor_driver_check(
	    SYMBOL(library, cuDeviceGetName)(features->name, sizeof features->name, handle));
	doctor_driver_check(SYMBOL(library, cuDeviceTotalMem)(&memory, handle));
	device->ordinal = ordinal;
	device->memory = memory;
	doctor_driver_check(SYMBOL(library, cuDeviceGetUuid)(&uuid, handle));
	doctor_driver_format_uuid(&uuid, device->uuid, sizeof device->uuid);
	doctor_driver_check(SYMBOL(library, cuDeviceGetPCIBusId)(
	    device->pci_bus_id, sizeof device->pci_bus_id, handle));
	features->vmm = doctor_driver_has(
	    library, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, handle);
}

static void doctor_driver_ask(const char *path)
{
	void *library;
	int count;

	probe_about_to(answer, "loading it");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(answer->said, sizeof answer->said, "%s", dlerror());
		return;
	}
	doctor_driver_check(SYMBOL(library, cuDriverGetVersion)(&answer->version));
	doctor_driver_check(SYMBOL(library, cuInit)(0));
	doctor_driver_check(SYMBOL(library, cuDeviceGetCount)(&count));
	for (int i = 0; i < count && i < DRIVER_DEVICES; i++) {
		ask_device(library, i, &answer->device[i], &answer->features[i]);
		answer->device_count++;
	}
	for (int i = 0; i < answer->device_count; i++) {
		CUdevice handle;

		doctor_driver_check(SYMBOL(library, cuDeviceGet)(&handle, i));
		probe_providers(library, handle, answer, i);
	}
	probe_about_to(answer, "");
}

static void say_death(struct driver_report *report, int signal)
{
	char where[sizeof report->said];

	memcpy(where, report->said, sizeof where);
	if (signal == SIGALRM)
		snprintf(report->said, sizeof report->said, "%.100s hung for %d s", where,
		         PROBE_SECONDS);
	else
		snprintf(report->said, sizeof report->said, "%.100s died of signal %d (%s)", where,
		         signal, strsignal(signal));
}

void driver_probe(const char *path, struct driver_report *report)
{
	pid_t child;
	int status = 0;

	answer =
	    mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answer == MAP_FAILED)
		fail("out of memory");
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0); /* a core would say nothing about us */
		signal(SIGALRM, SIG_DFL);
		alarm(PROBE_SECONDS);
		doctor_driver_ask(path);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	*report = *answer;
	munmap(answer, sizeof *answer);
	if (WIFSIGNALED(status))
		say_death(report, WTERMSIG(status));
}
