/* SPDX-License-Identifier: MIT */
/* spillway doctor: the container and HAMi's variables. */
#include "tools/doctor/surroundings.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/bells.h"
#include "core/base/cgroup.h"
#include "core/base/units.h"
#include "core/state/directory.h"
#include "tools/doctor/finding.h"
#include "tools/view/gpus.h"
#include "tools/view/tool.h"

/* --- the container --- */

static bool surroundings_read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool good = file && fgets(line, size, file);

	if (file)
		fclose(file);
	return good;
}

/* Tries system calls that a container's seccomp filter may refuse, and says what is lost then. */
static void check_calls(void)
{
	int descriptor;

	if (!bells_can_be_several())
		finding(FINDING_NOTE,
		        "container: futex_waitv: %s: a job beside others looks every 20 ms",
		        strerror(errno));
	descriptor = memfd_create("spillway", MFD_CLOEXEC);
	if (descriptor < 0)
		finding(FINDING_NOTE, "container: memfd_create: %s: no 'spillway stat --resources'",
		        strerror(errno));
	else
		close(descriptor);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < 0)
		finding(FINDING_NOTE,
		        "container: membarrier: %s: each launch costs some nanoseconds more",
		        strerror(errno));
}

/*
 * Returns whether we are in another namespace of processes than the first, which has a number of
 * its own.
 */
static bool has_own_processes(void)
{
	static const char first[] = "pid:[4026531836]";
	char link[64] = "";

	return readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0 && strcmp(link, first) != 0;
}

/* gVisor's own name is in the version. Earlier releases had an old kernel's, of one date. */
static void check_sandbox(void)
{
	char line[256];

	if (!surroundings_read_line("/proc/version", line, sizeof line) ||
	    !(strstr(line, "gvisor") || (strstr(line, "4.4.0") && strstr(line, "Jan 10 15:06:54"))))
		return;
	finding(FINDING_NOTE, "container: gVisor: it ignores the node's /etc/ld.so.preload");
	finding_try("ENV LD_PRELOAD in the image, with Spillway in it");
}

/* Says whether memory of a coherent GPU is a NUMA node of the system, as on Grace without CDMM. */
static void check_coherent_memory(void)
{
	FILE *file = fopen("/proc/driver/nvidia/params", "re");
	char line[256];

	while (file && fgets(line, sizeof line, file)) {
		if (strncmp(line, "CoherentGPUMemoryMode: \"", 24) != 0)
			continue;
		if (strncmp(line + 24, "driver", 6) == 0)
			finding(FINDING_OK, "driver: CDMM: the GPU's memory is no NUMA node");
		else if (strncmp(line + 24, "numa", 4) == 0) {
			finding(FINDING_NOTE,
			        "driver: the GPU's memory is a NUMA node: memory that "
			        "the system takes from it is in no limit");
			finding_try(
			    "the nvidia module with NVreg_CoherentGPUMemoryMode=driver (CDMM)");
		}
	}
	if (file)
		fclose(file);
}

static void check_gpu_files(void)
{
	static const char *const files[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"};

	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (access(files[i], F_OK) == 0 && access(files[i], R_OK | W_OK) != 0) {
			finding(FINDING_NOTE, "container: %s: %s: the driver cannot use the GPU",
			        files[i], strerror(errno));
			finding_try("docker run --gpus all, or a group that may open it");
		}
}

/* --- memory cgroup --- */

/* Prints what host_memory = auto reckons with. */
static void print_host_memory(void)
{
	struct cgroup_memory memory;
	char left[32], limit[32];

	cgroup_memory("", &memory);
	if (memory.left == UINT64_MAX)
		finding(FINDING_OK, "host memory: no memory cgroup limits it");
	else
		finding(FINDING_OK, "host memory: the memory cgroup %s leaves %s of %s",
		        memory.tightest, units_format_size(memory.left, left, sizeof left),
		        units_format_size(memory.limit, limit, sizeof limit));
}

/* --- limits of GPU memory by cgroup, and their traps as NVIDIA documents them --- */

/* Prints the traps of any such limit, once. */
static void explain_gpu_traps(void)
{
	finding(FINDING_NOTE,
	        "gpu limits: a cgroup removed while its memory is in use keeps its reservation");
	finding(FINDING_NOTE, "gpu limits: managed memory is counted on the host alone");
	finding(FINDING_NOTE, "gpu limits: they hold for no part of a GPU (MIG)");
	finding(FINDING_NOTE, "gpu limits: memory bandwidth is limited by none of them");
}

/* Returns whether there is a limit. */
static bool explain_gpu_limit(const struct cgroup_device *limit, const char *own)
{
	char hard[32] = "any", soft[32], used[32];

	if (limit->hard == UINT64_MAX && !limit->soft)
		return false;
	if (limit->hard != UINT64_MAX)
		units_format_size(limit->hard, hard, sizeof hard);
	finding(FINDING_OK,
	        "gpu %s: the cgroup leaves %s (%s/dmem.max), %s safe (%s/dmem.min), %s in use",
	        limit->pci, hard, limit->hard_from,
	        units_format_size(limit->soft, soft, sizeof soft), limit->soft_from,
	        units_format_size(limit->used, used, sizeof used));
	if (!limit->soft)
		finding(FINDING_NOTE,
		        "gpu %s: no dmem.min: a process is ended when a neighbour needs room",
		        limit->pci);
	if (*limit->hard_from && strcmp(limit->hard_from, own) != 0)
		finding(FINDING_NOTE,
		        "gpu %s: dmem.max of a parent holds, but the driver tells programs the "
		        "whole GPU",
		        limit->pci);
	return true;
}

static bool has_nvml_limits;

static void explain_nvml_limit(const char *uuid, uint64_t soft, uint64_t hard)
{
	char most[32] = "any", safe[32];

	has_nvml_limits = true;
	if (hard != UINT64_MAX)
		units_format_size(hard, most, sizeof most);
	finding(FINDING_OK, "gpu %s: NVML keeps a limit of the cgroup: %s, %s safe", uuid, most,
	        units_format_size(soft, safe, sizeof safe));
}

/* Returns whether a list such as "0=1G,1=2G" names a GPU that CUDA_VISIBLE_DEVICES hides. */
static bool names_invisible_gpu(const char *pinned)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct gpus gpus;
	long count;

	gpus_read(&gpus);
	count = gpus.count;
	if (visible) {
		count = *visible != '\0';
		for (; *visible; visible++)
			count += *visible == ',';
	}
	for (const char *part = pinned; part && *part; part = strchr(part, ',')) {
		part += *part == ',';
		if (*part >= '0' && *part <= '9' && strtol(part, NULL, 10) >= count)
			return true;
	}
	return false;
}

static void check_mps(void)
{
	const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
	const char *pinned = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	char control[PATH_MAX];

	if (pinned && *pinned)
		finding(FINDING_NOTE,
		        "mps: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s: it shows in free memory, not in "
		        "the total",
		        pinned);
	if (pinned && *pinned && names_invisible_gpu(pinned))
		finding(FINDING_NOTE,
		        "mps: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s: it names a GPU that is not "
		        "visible, which drops all limits",
		        pinned);
	if (!pipe || !*pipe)
		return;
	snprintf(control, sizeof control, "%s/control", pipe);
	if (access(control, F_OK) != 0)
		finding(FINDING_NOTE,
		        "mps: CUDA_MPS_PIPE_DIRECTORY=%s: no MPS control there (%s): no limit of "
		        "MPS holds, and nothing says so",
		        pipe, strerror(errno));
}

static void check_gpu_limits(void)
{
	static struct cgroup_device limits[CGROUP_DEVICES];
	const char *leaf = getenv("SPILLWAY_CGROUP");
	char own[CGROUP_PATH] = "";
	bool has_limits = false;
	int count;

	leaf = leaf && *leaf ? leaf : NULL;
	if (leaf)
		snprintf(own, sizeof own, "%s", leaf);
	else if (!cgroup_own("", own))
		own[0] = '\0';
	count = cgroup_devices("", leaf, limits);
	for (int i = 0; i < count; i++)
		has_limits |= explain_gpu_limit(&limits[i], own);
	if (*own)
		gpus_each_limit(own, explain_nvml_limit);
	if (has_limits || has_nvml_limits)
		explain_gpu_traps();
	check_mps();
}

/* --- all of it --- */

void surroundings_container(bool needs_softgpu)
{
	char path[PATH_MAX];

	directory_of_node(path, sizeof path);
	if (access(path, W_OK | X_OK) == 0) {
		finding(FINDING_OK, "node directory: %s", path);
	} else {
		finding(FINDING_NOTE,
		        "node directory: %s: %s: jobs of other users and in other containers are "
		        "not seen, and take no turns with those here",
		        path, strerror(errno));
		finding_try(
		    "where several users share the GPUs, as root: spillway%s doctor --setup "
		    "--group GROUP",
		    needs_softgpu ? " run --softgpu spillway" : "");
	}
	if (has_own_processes())
		finding(FINDING_OK,
		        "container: processes have numbers of their own here: beside other "
		        "programs on a GPU, "
		        "the share held is estimated roughly");
	print_host_memory();
	check_gpu_limits();
	check_gpu_files();
	check_sandbox();
	check_coherent_memory();
	check_calls();
}

/* --- HAMi --- */

struct hami {
	const char *name;
	bool has_ordinals;
	const char *as; /* which setting it is here; NULL: none */
	const char
	    *ours; /* the variable that goes before it; of what is no setting: why it is not */
	const char *in_pod; /* as what it counts in a pod; NULL: as elsewhere */
};

static const struct hami known[] = {
    {"CUDA_DEVICE_MEMORY_LIMIT", true, "memory", "SPILLWAY_MEMORY", NULL},
    {"NVIDIA_GPU_MEMORY_REQUEST", false, "memory", "SPILLWAY_MEMORY", NULL},
    {"NVIDIA_GPU_MEMORY_LIMIT", false, "memory_max", "SPILLWAY_MEMORY_MAX", NULL},
    {"CUDA_DEVICE_SM_LIMIT", true, "share", "SPILLWAY_SHARE", NULL},
    {"GPU_CORE_UTILIZATION_POLICY", false, "whether CUDA_DEVICE_SM_LIMIT holds", NULL,
     "share_policy"},
    {"CUDA_DISABLE_CONTROL", false, "SPILLWAY_DISABLE", "SPILLWAY_DISABLE", NULL},
    {"CUDA_DEVICE_MEMORY_SHARED_CACHE", false, "the processes that share a limit", "SPILLWAY_JOB",
     "the job, and the shared region"},
    {"CUDA_OVERSUBSCRIBE", false, NULL, "what does not fit is spilled anyway, unless spill = off",
     "whether what does not fit is spilled"},
    {"CUDA_TASK_PRIORITY", false, NULL, "share and share_policy divide the GPU", "priority"},
    {"ACTIVE_OOM_KILLER", false, NULL, "no process is killed for its memory", NULL},
    {"LIBCUDA_LOG_LEVEL", false, NULL, "SPILLWAY_LOG sets the level of the log", "SPILLWAY_LOG"},
};

/* Returns what follows the name in the variable, an ordinal or nothing; NULL: it is another one. */
static const char *ordinal_of(const struct hami *hami, const char *variable)
{
	size_t length = strlen(hami->name);

	if (strncmp(variable, hami->name, length) != 0)
		return NULL;
	variable += length;
	if (hami->has_ordinals && *variable == '_')
		return variable;
	return *variable == '=' ? variable : NULL;
}

static bool is_overridden(const struct hami *hami, const char *ordinal)
{
	char *variable = text("%s%.*s", hami->ours, (int)strcspn(ordinal, "="), ordinal);
	const char *exact = getenv(variable), *all = getenv(hami->ours);

	free(variable);
	return (exact && *exact) || (all && *all);
}

static void surroundings_judge(const struct hami *hami, const char *variable, const char *ordinal,
                               bool in_pod)
{
	const char *value = strchr(ordinal, '=') + 1;
	const char *policy = getenv("GPU_CORE_UTILIZATION_POLICY");
	const char *giver = strncmp(variable, "NVIDIA_", 7) == 0 ? "kai" : "hami";

	if (!*value)
		return;
	if (in_pod && hami->in_pod)
		finding(FINDING_OK, "%s: %s: honoured as %s", giver, variable, hami->in_pod);
	else if (!hami->as || (hami->ours && is_overridden(hami, ordinal))) {
		finding(FINDING_NOTE, "%s: %s: not honoured: %s%s", giver, variable, hami->ours,
		        hami->as ? " goes before it" : "");
		finding_try("unset %.*s", (int)strcspn(variable, "="), variable);
	} else if (strncmp(variable, "CUDA_DEVICE_SM_LIMIT", 20) == 0 && policy &&
	           strcasecmp(policy, "disable") == 0)
		finding(FINDING_NOTE, "hami: %s: not honoured: GPU_CORE_UTILIZATION_POLICY says so",
		        variable);
	else if (hami->has_ordinals && strcmp(value, "0") == 0)
		finding(FINDING_OK, "%s: %s: honoured: no %s", giver, variable, hami->as);
	else
		finding(FINDING_OK, "%s: %s: honoured as %s", giver, variable, hami->as);
}

/* Returns whether a library is preloaded whose name begins so. */
static bool surroundings_is_preloaded(const char *name)
{
	const char *preload = getenv("LD_PRELOAD");
	char line[PATH_MAX];

	return (preload && strstr(preload, name)) ||
	       (surroundings_read_line("/etc/ld.so.preload", line, sizeof line) &&
	        strstr(line, name));
}

void surroundings_preloaded(void)
{
	if (surroundings_is_preloaded("libspillway-alias.so") &&
	    !surroundings_is_preloaded("libspillway.so") &&
	    !surroundings_is_preloaded("libspillway-2.34.so"))
		finding(FINDING_NO,
		        "preload: libspillway-alias.so is preloaded without libspillway.so: "
		        "nothing is limited or counted");
}

void surroundings_hami(char *const *environment, const struct pod *pod)
{
	for (; *environment; environment++) {
		for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
			const char *ordinal = ordinal_of(&known[i], *environment);

			if (ordinal && strchr(ordinal, '='))
				surroundings_judge(&known[i], *environment, ordinal, pod->is_ours);
		}
	}
	if (surroundings_is_preloaded("libvgpu.so") && !pod->is_ours)
		finding(FINDING_NOTE, "hami: libvgpu.so is preloaded, too: both limit the program");
}
