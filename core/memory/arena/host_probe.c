/*
 * Finding out about memory on the host. Rules: runs inside the user's process, within its calls and
 * in the mover's thread, so the environment is not read: the program gets that of the process's
 * start.
 */
#include "core/memory/arena/host_probe.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/arena/child.h"
#include "core/base/log.h"
#include "core/base/own_file.h"
#include "core/base/thread.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

#define CACHE "driver-probe"

enum {
	SECONDS_MAX = 60, /* for six processes that open a driver */
#ifdef __SANITIZE_THREAD__
	SECONDS_WAITED = 60, /* each of them takes seconds to start */
#else
	SECONDS_WAITED = 10, /* by the process's threads, for all devices */
#endif
	SAID_MAX = 256,
	CACHE_MAX = 16384,
	ENVIRONMENT_MAX = 256 << 10,
	FIRST_THAT_SURVIVES = 13020, /* CUDA's version of R595 */
};

static struct {
	char program[PATH_MAX], library[PATH_MAX];
} by;

static LOCK_OF(HOST_PROBE) lock = LOCK_FREE;
static struct host_probe known[DEVICE_MAX];
static _Atomic bool is_known[DEVICE_MAX];

/* Of each device, for a thread of ours: who asks waits for it so long and then goes on without. */
static struct question {
	const struct device *device;
	char nodes[4 * NUMA_NODES_MAX + 16]; /* their numbers, with commas */
	char key[256], said[SAID_MAX];       /* said: "": nothing could be tried */
	_Atomic bool is_asked;
	_Atomic uint32_t answered;
} questions[DEVICE_MAX];
static uint64_t patience_ns = SECONDS_WAITED * (uint64_t)1000000000;

void host_probe_by(const char *program, const char *driver_path)
{
	snprintf(by.program, sizeof(by.program), "%s", program);
	snprintf(by.library, sizeof(by.library), "%s", driver_path);
}

static int driver_version(void)
{
	int version = 0;

	return driver.cuDriverGetVersion(&version) == CUDA_SUCCESS ? version : 0;
}

/* Fills in what is said of a kind; what is not named stays unknown. */
static int answer_in(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = text; (at = strstr(at, name)); at += length) {
		if ((at != text && at[-1] != '\n' && at[-1] != ' ') || at[length] != ' ')
			continue;
		return strncmp(at + length + 1, "crash", 5) == 0 ? PROBE_CRASHED
		                                                 : atoi(at + length + 1);
	}
	return PROBE_UNKNOWN;
}

static void parse(const char *text, struct host_probe *found)
{
	found->numa = answer_in(text, "numa");
	found->host = answer_in(text, "host");
	found->copy = answer_in(text, "copy");
	found->node = answer_in(text, "node");
	found->mixed = answer_in(text, "mixed");
	found->unmap = answer_in(text, "unmap");
}

/* Writes from which nodes memory is taken: each is tried. */
static void list_nodes(struct question *q, const struct host_probe *probe)
{
	size_t length =
	    (size_t)snprintf(q->nodes, sizeof(q->nodes), "%d",
	                     probe->node_count ? probe->nodes[0] : q->device->host_node);

	for (int i = 1; i < probe->node_count && length < sizeof(q->nodes); i++)
		length += (size_t)snprintf(q->nodes + length, sizeof(q->nodes) - length, ",%d",
		                           probe->nodes[i]);
}

/* --- what was found before --- */

/* Writes what a line of the cache begins with: of what it says the answers. */
static void write_key(struct question *q)
{
	char boot[SEGMENT_BOOT_ID_MAX], key[sizeof(q->key)];

	segment_read_boot_id(boot);
	snprintf(key, sizeof(key), "boot %s driver %d gpu %s memory of %s:", boot, driver_version(),
	         q->device->id.uuid, q->nodes);
	memcpy(q->key, key, sizeof(key));
}

static size_t read_cache(int directory, char *text, size_t size)
{
	int fd = own_file_open(directory, CACHE, O_RDONLY, 0);
	ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/* Finds the device's line. Returns what follows the key, or NULL. */
static const char *find_line(char *text, const char *key)
{
	char *line = strstr(text, key);

	if (!line || (line != text && line[-1] != '\n'))
		return NULL;
	line += strlen(key);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static bool look_up(const char *key, struct host_probe *found)
{
	char text[CACHE_MAX];
	int directory = directory_open(false, NULL, 0);
	const char *line;

	if (directory < 0)
		return false;
	read_cache(directory, text, sizeof(text));
	close(directory);
	line = find_line(text, key);
	if (line)
		parse(line, found);
	return line != NULL;
}

static bool write_all(int fd, const char *text)
{
	size_t size = strlen(text);

	return write(fd, text, size) == (ssize_t)size;
}

/* Keeps a line, and those of others that are of this boot; another writer's may be lost. */
static void keep(const char *key, const char *said)
{
	char text[CACHE_MAX], next[sizeof(CACHE) + 32];
	int directory = directory_open(false, NULL, 0), fd;
	bool is_whole;

	if (directory < 0)
		return;
	snprintf(next, sizeof(next), CACHE ".%d", (int)getpid());
	fd = openat(directory, next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) {
		/* "boot ID" is the same for all that still count. */
		size_t of_boot = strcspn(key + strlen("boot "), " ") + strlen("boot ");

		read_cache(directory, text, sizeof(text));
		is_whole = strncmp(text, key, of_boot) != 0 || write_all(fd, text);
		is_whole =
		    is_whole && write_all(fd, key) && write_all(fd, said) && write_all(fd, "\n");
		close(fd);
		if (!is_whole || renameat(directory, next, directory, CACHE) != 0)
			unlinkat(directory, next, 0);
	}
	close(directory);
}

/* --- asking the program --- */

/* Returns the process's first environment, as text and as pointers into it; the caller frees it. */
static char **first_environment(const char *uuid)
{
	size_t words = 0, filled = 0, room = ENVIRONMENT_MAX / 8;
	char **list = malloc(room * sizeof(*list) + ENVIRONMENT_MAX), *text;
	int fd = list ? open("/proc/self/environ", O_RDONLY | O_CLOEXEC) : -1;
	static char alone[] = "SPILLWAY_DISABLE=1";
	ssize_t got;

	if (!list)
		return NULL;
	text = (char *)(list + room);
	while (fd >= 0 && filled < ENVIRONMENT_MAX - 128 &&
	       (got = read(fd, text + filled, ENVIRONMENT_MAX - 128 - filled)) > 0)
		filled += (size_t)got;
	if (fd >= 0)
		close(fd);
	text[filled] = '\0';
	for (char *at = text; at < text + filled && words < room - 3; at += strlen(at) + 1) {
		if (strncmp(at, "LD_PRELOAD=", 11) != 0 &&
		    strncmp(at, "CUDA_VISIBLE_DEVICES=", 21) != 0)
			list[words++] = at;
	}
	list[words++] = alone;
	list[words] = text + filled + 1;
	snprintf(list[words++], 120, "CUDA_VISIBLE_DEVICES=%s", uuid);
	list[words] = NULL;
	return list;
}

/* Runs the program, and fills in what it said, its lines as words of one line. */
static void run(struct question *q)
{
	char *arguments[] = {by.program, by.library, q->nodes, NULL};
	char **environment = first_environment(q->device->id.uuid);
	struct deadline until = DEADLINE_IN(SECONDS_MAX * (uint64_t)1000000000);
	int status;

	if (!environment)
		return;
	status =
	    child_run(by.program, arguments, environment, q->said + 1, sizeof(q->said) - 1, &until);
	free(environment);
	if (status == 0 && q->said[1])
		q->said[0] = ' ';
	for (char *c = q->said; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	if (status != 0)
		log_once(LOG_INFO,
		         "gpu %d: what the driver does with memory on the host could "
		         "not be tried (%s: error %d)",
		         q->device->id.ordinal, by.program, status);
}

/* Answers a question as a thread of ours. */
static void *answer(void *nothing)
{
	struct question *q = questions;
	struct host_probe found;

	while (!atomic_exchange(&q->is_asked, false))
		q++;
	run(q);
	parse(q->said, &found);
	/* What there was no memory for is tried again by the next process. */
	if (*q->said && found.copy != CUDA_ERROR_OUT_OF_MEMORY &&
	    found.mixed != CUDA_ERROR_OUT_OF_MEMORY)
		keep(q->key, q->said);
	clock_in_use->wake(&q->answered);
	return nothing;
}

/* Asks, and waits for the answer. Returns whether there is one, if only that nothing was tried. */
static bool ask(struct question *q)
{
	struct deadline until = DEADLINE_IN(patience_ns);

	atomic_store(&q->is_asked, true);
	if (thread_start(answer) != 0) {
		atomic_store(&q->is_asked, false);
		return true;
	}
	while (!atomic_load(&q->answered) && deadline_wait(&until, &q->answered, 0))
		;
	patience_ns = deadline_left(&until);
	return atomic_load(&q->answered);
}

/* Fills in what is supposed where nothing could be tried. */
static void take_untried(struct host_probe *probe)
{
	probe->numa = driver_version() >= FIRST_THAT_SURVIVES ? CUDA_SUCCESS : PROBE_CRASHED;
	probe->host = CUDA_SUCCESS;
	probe->copy = probe->node = probe->mixed = probe->unmap = PROBE_UNKNOWN;
}

static void look_or_ask(const struct device *device, struct host_probe *found)
{
	struct question *q = &questions[device->id.ordinal];

	q->device = device;
	list_nodes(q, found);
	write_key(q);
	if (look_up(q->key, found))
		return;
	if (!ask(q)) {
		parse("", found);
		log_once(LOG_WARNING,
		         "gpu %d: the driver takes more than %d s to try what it does with memory "
		         "on the host: until this process ends nothing of it moves there",
		         device->id.ordinal, SECONDS_WAITED);
		return;
	}
	if (!*q->said) {
		take_untried(found);
		return;
	}
	parse(q->said, found);
	log_info("gpu %d: memory on the host, tried with this driver:%s", device->id.ordinal,
	         q->said);
	if (found->numa == PROBE_CRASHED)
		log_once(LOG_WARNING,
		         "gpu %d: this driver crashes when memory is made on NUMA node "
		         "%s of the host: memory without a node is used",
		         device->id.ordinal, q->nodes);
}

/* Returns whether it works; what there was no memory for when it was tried may, later. */
static bool can_be(int answer)
{
	return answer == CUDA_SUCCESS || answer == CUDA_ERROR_OUT_OF_MEMORY;
}

static bool allows(const struct host_probe *probe)
{
	return (can_be(probe->numa) || can_be(probe->host)) && probe->copy != PROBE_CRASHED;
}

static struct host_probe find_out(struct device *device)
{
	struct host_probe found = {.node_count = 0};

	if (!*by.program)
		return found;
	found.node_count = numa_nodes("", device->host_node, found.nodes);
	look_or_ask(device, &found);
	if (allows(&found))
		return found;
	/* What is in the arena stays there, on the device; nothing more comes to it. */
	device_note_elastic(device, ELASTIC_NO_HOST);
	log_info("gpu %d: memory on the host is refused, or not safe with this driver: what is on "
	         "the device does not move",
	         device->id.ordinal);
	return found;
}

const struct host_probe *host_probe_of(struct device *device)
{
	int i = device->id.ordinal, cancel;

	if (atomic_load_explicit(&is_known[i], memory_order_acquire))
		return &known[i];
	/* Files are opened here: a thread cancelled half way would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&lock);
	if (!atomic_load_explicit(&is_known[i], memory_order_relaxed)) {
		known[i] = find_out(device);
		/* with the load above: who sees it known sees all of it */
		atomic_store_explicit(&is_known[i], true, memory_order_release);
	}
	lock_release(&lock);
	pthread_setcancelstate(cancel, NULL);
	return &known[i];
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
	int i = device->id.ordinal;

	return atomic_load_explicit(&is_known[i], memory_order_acquire) ? known[i].unmap
	                                                                : PROBE_UNKNOWN;
}
