/* SPDX-License-Identifier: MIT */
/*
 * The facts about memory on the host. Rules: runs inside the user's process, within its calls and
 * in the mover's thread; files are read and none waits.
 */
#include "core/memory/arena/host_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/shared_file.h"
#include "core/state/directory.h"

/* From R595 (CUDA 13.2) cuMemCreate on a NUMA node answers an error where older drivers crash. */
enum { FIRST_THAT_SURVIVES = 13020 };
#define LOOK_AGAIN_NS 1000000000ull

/*
 * The assumption about a device until it is probed (untried), and the cached answers of a probe
 * (found). known points to one of them, first to untried and then to found for good.
 */
struct probed {
	struct host_probe untried, found;
	const struct host_probe *_Atomic known; /* NULL: it was not looked up */
	_Atomic uint64_t looked_ns;
};

static struct probed probed[DEVICE_MAX];
static LOCK_OF(HOST_PROBE) lock = LOCK_FREE;
static char driver_path[PATH_MAX];

void host_probe_by(const char *path)
{
	snprintf(driver_path, sizeof(driver_path), "%s", path);
}

static int driver_version(void)
{
	int version = 0;

	return driver.cuDriverGetVersion(&version) == CUDA_SUCCESS ? version : 0;
}

static int numa_untried(void)
{
	return driver_version() >= FIRST_THAT_SURVIVES ? CUDA_SUCCESS : PROBE_CRASHED;
}

/* Returns whether it works; a provider without memory at its try may work later. */
static bool can_be(int answer)
{
	return answer == CUDA_SUCCESS || answer == CUDA_ERROR_OUT_OF_MEMORY;
}

static bool allows(const struct host_probe *probe)
{
	return (can_be(probe->numa) || can_be(probe->host)) && probe->copy != PROBE_CRASHED;
}

/* Lists the nodes of which this process may have memory; the device's own, where none is known. */
static int probe_list_nodes(const struct device *device, int nodes[NUMA_NODES_MAX])
{
	int count = numa_nodes("", device->host_node, nodes);

	if (count == 0)
		nodes[count++] = device->host_node;
	return count;
}

static int node_answer(const struct probe_answers *answers, int node)
{
	return node >= 0 && node < PROBE_NODES ? answers->numa[node] : PROBE_UNKNOWN;
}

/*
 * Keeps the nodes that work. Where none does, keeps the answer of the nearest one that was tried.
 */
static void probe_take_nodes(const struct device *device, const struct probe_answers *answers,
                             struct host_probe *found)
{
	int nodes[NUMA_NODES_MAX], count = probe_list_nodes(device, nodes);
	bool has_crashed = false;

	found->numa = PROBE_UNKNOWN;
	for (int i = 0; i < count; i++) {
		int answer = node_answer(answers, nodes[i]);

		if (answer == PROBE_CRASHED) {
			has_crashed = true;
			log_once(LOG_WARNING,
			         "gpu %d: this driver crashes when memory is made on NUMA node %d "
			         "of the host: memory of another node, or without one, is used",
			         device->id.ordinal, nodes[i]);
		}
		if (can_be(answer))
			found->nodes[found->node_count++] = nodes[i];
		if (found->numa == PROBE_UNKNOWN || (can_be(answer) && !can_be(found->numa)))
			found->numa = answer;
	}
	if (has_crashed && found->node_count == 0)
		found->numa = PROBE_CRASHED;
	if (found->numa == PROBE_UNKNOWN)
		found->numa = numa_untried();
}

/* Fills in the assumptions about a device without a cache. */
static void probe_take_untried(const struct device *device, struct host_probe *untried)
{
	untried->node_count = numa_nodes("", device->host_node, untried->nodes);
	untried->numa = numa_untried();
	untried->host = CUDA_SUCCESS;
	untried->copy = untried->node = untried->mixed = untried->unmap = PROBE_UNKNOWN;
}

static void probe_take(struct device *device, const struct probe_answers *answers,
                       struct host_probe *found)
{
	found->host = answers->of[PROBE_HOST];
	found->copy = answers->of[PROBE_COPY];
	found->node = answers->of[PROBE_NODE];
	found->mixed = answers->of[PROBE_MIXED];
	found->unmap = answers->of[PROBE_UNMAP];
	probe_take_nodes(device, answers, found);
	if (allows(found))
		return;
	/* Memory in the arena stays there, on the device; no more comes to it. */
	device_note_elastic(device, ELASTIC_NO_HOST);
	log_info("gpu %d: memory on the host is refused, or not safe with this driver: memory on "
	         "the GPU does not move",
	         device->id.ordinal);
}

static bool probe_look_up(const struct device *device, struct probe_answers *answers)
{
	char key[PROBE_LINE_MAX];

	probe_cache_key(driver_version(), device->name, key, sizeof(key));
	return probe_cache_look_up(key, answers, NULL);
}

static bool probe_is_final(const struct probed *p, const struct host_probe *known)
{
	return known && known != &p->untried;
}

/* Looks a device up; with the lock held. */
static void probe_find_out(struct device *device, struct probed *p)
{
	struct probe_answers answers;
	const struct host_probe *known = &p->found; /* without a driver's name all of it works */

	if (*driver_path && !probe_look_up(device, &answers)) {
		if (!atomic_load_explicit(&p->known, memory_order_relaxed))
			probe_take_untried(device, &p->untried);
		known = &p->untried;
	} else if (*driver_path) {
		probe_take(device, &answers, &p->found);
	}
	atomic_store(&p->looked_ns, clock_now());
	/* Release: a thread that sees it known sees all of it. */
	atomic_store_explicit(&p->known, known, memory_order_release);
}

const struct host_probe *host_probe_of(struct device *device)
{
	struct probed *p = &probed[device->id.ordinal];
	const struct host_probe *known = atomic_load_explicit(&p->known, memory_order_acquire);
	int cancel;

	if (probe_is_final(p, known) ||
	    (known && clock_now() - atomic_load(&p->looked_ns) < LOOK_AGAIN_NS))
		return known;
	/* Files are opened here: a thread cancelled half way would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&lock);
	if (!probe_is_final(p, atomic_load_explicit(&p->known, memory_order_relaxed)))
		probe_find_out(device, p);
	known = atomic_load_explicit(&p->known, memory_order_relaxed);
	lock_release(&lock);
	pthread_setcancelstate(cancel, NULL);
	return known;
}

/* Returns whether a probe would tell this process something. */
static bool probe_lacks(struct device *device)
{
	int nodes[NUMA_NODES_MAX], count = probe_list_nodes(device, nodes);
	struct probe_answers answers;

	if (!probe_look_up(device, &answers))
		return true;
	for (int i = 0; i < count; i++)
		if (node_answer(&answers, nodes[i]) == PROBE_UNKNOWN)
			return true;
	return false;
}

/* Asks `spillway run` for a probe. One that was asked for already serves. */
static void host_probe_probe_ask(const char *job)
{
	char name[CONFIG_NAME_MAX + sizeof(PROBE_WANTED)], line[PATH_MAX + 1];
	int length = snprintf(line, sizeof(line), "%s\n", driver_path), fd;
	int directory = directory_open(false, NULL, 0);

	if (directory < 0)
		return;
	snprintf(name, sizeof(name), "%s" PROBE_WANTED, job);
	fd = shared_file_new(directory, name);
	if (fd >= 0) {
		if (write(fd, line, (size_t)length) != length)
			unlinkat(directory, name, 0);
		close(fd);
	}
	close(directory);
}

void host_probe_look(struct device_set *devices, const char *job)
{
	bool lacks = false;
	int kept = errno;

	for (int i = 0; *driver_path && i < devices->count; i++)
		lacks |= probe_lacks(&devices->device[i]);
	if (lacks)
		host_probe_probe_ask(job);
	errno = kept;
}

bool host_probe_allows(struct device *device)
{
	return allows(host_probe_of(device));
}

bool host_probe_may_mix(struct device *device, const struct terms *terms)
{
	return terms->settings.mixed == MIXED_AUTO && host_probe_of(device)->mixed == CUDA_SUCCESS;
}

int host_probe_unmap(const struct device *device)
{
	const struct host_probe *known =
	    atomic_load_explicit(&probed[device->id.ordinal].known, memory_order_acquire);

	return known ? known->unmap : PROBE_UNKNOWN;
}
