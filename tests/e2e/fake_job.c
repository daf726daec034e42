/* SPDX-License-Identifier: MIT */
/*
 * fake_job [-d] [-r] [-1] [-m BYTES] [-s BYTES] [-i NS] [-b NS] [-u UUID] [-c COUNTER=VALUE]...: a
 * job's process without CUDA, for tests of the tool.
 *
 * Joins the job in SPILLWAY_JOB. It claims to hold BYTES on the device (-m), to have spilled BYTES
 * (-s), to have been idle (-i) and busy (-b) for NS, and to have a GPU of this UUID. It has any
 * counter that is given (-c). It follows the override file until SIGTERM. SIGUSR1: it has taken one
 * more step, 10 ms longer than the last, and moved 1 MiB to the host. -d: deaf, follows nothing;
 * -r: refuses every override; -1: leaves at once. Prints "ready" when other processes see it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/budget/device.h"
#include "core/config/config.h"
#include "core/ledger/codes.h"
#include "core/state/directory.h"
#include "core/pages/page.h"
#include "core/state/segment.h"

static struct segment_device gpu = {
    .uuid = "GPU-00000000-0000-0000-0000-000000000001",
    .pci_bus_id = "0000:01:00.0",
    .name = "Fake GPU",
    .memory = 1 << 30,
};

static struct device device = {.lock = LOCK_FREE};
static bool refuses;

static volatile sig_atomic_t asked_to_end;
static volatile sig_atomic_t steps_asked_for;

static void step(int signal)
{
	(void)signal;
	steps_asked_for++;
}

static void end(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

static void fail(const char *message)
{
	fprintf(stderr, "fake_job: %s\n", message);
	exit(1);
}

/* Last of all, so that it goes before what is set. */
static void put_counters(const struct statistics *counter)
{
	struct facts facts = device.facts;

#define X(name, how, unit, meaning) \
	if (counter->name)          \
		statistics_set(&device.statistics->name, counter->name);
	COUNTERS(X)
#undef X
	facts.elastic = counter->elastic ? counter->elastic : facts.elastic;
	facts.evicted = counter->evicted ? counter->evicted : facts.evicted;
	facts.grown = counter->limit_grown;
	facts.blocker = counter->move_pending;
	facts.blocker_generation = facts.generation;
	publish_value(&device.ledger->facts, &facts);
	atomic_store(&device.ledger->pinned, counter->pinned_chunks);
	atomic_store(device.placed, placed_pack(&(struct placed){
	                                .placement = (enum placement_code)counter->placement,
	                                .shrink = (enum shrink_code)counter->shrink,
	                                .before = (uint32_t)(counter->kernels_before / 1000),
	                                .best = (uint32_t)(counter->kernels_best / 1000)}));
}

static void apply(const struct config *config, const char *complaint)
{
	struct config_gpu settings;
	char text[CONFIG_MESSAGE_MAX + 16];

	config_for_device(config, &device.id, &settings);
	device_apply(&device, &settings);
	statistics_set(&device.statistics->paused, settings.share == 0);
	snprintf(text, sizeof text, "%s%s",
	         refuses || config_job(config)->override_is_refused ? "refused: " : "",
	         refuses ? "as it likes" : complaint);
	segment_tell(device.segment, config_job(config)->override_hash, 0, text);
}

/* As the shim does: of a bad file what was good of it last stays. */
static void follow(const char *override_file, const char *pause_file)
{
	uint64_t generation = device_job_generation(&device);
	static struct config *last_good;
	struct config_pause pause;
	struct config_error complaint;
	const struct config_sources sources = {
	    .pause = &pause,
	    .complaint = &complaint,
	    .last_good = last_good,
	    .file = getenv("SPILLWAY_CONFIG"),
	    .override_file = override_file,
	    .environment = environ,
	};
	struct config *config = NULL;
	struct config_error error;

	config_pause_read(pause_file, "", &pause);
	if (config_load(&sources, &config, &error) == 0) {
		apply(config, complaint.message);
		config_release(last_good);
		last_good = config;
	}
	device_agree(&device, generation);
}

/* The figures that the process claims of itself. */
struct claims {
	uint64_t held, spilled, idle_ns, busy_ns;
	bool deaf, once;
	struct statistics counter; /* where it is not 0 */
};

static void read_counter(const char *text, struct statistics *counter)
{
	const char *value = strchr(text, '=');
	size_t length = value ? (size_t)(value - text) : 0;

#define X(name, how, unit, meaning)                                         \
	if (length == strlen(#name) && strncmp(text, #name, length) == 0) { \
		counter->name = strtoull(value + 1, NULL, 10);              \
		return;                                                     \
	}
	STATISTICS(X)
#undef X
	fail("-c: expected COUNTER=VALUE");
}

static void read_options(int argc, char **argv, struct claims *claims)
{
	int option;

	while ((option = getopt(argc, argv, "d1rm:s:i:b:u:c:")) != -1) {
		switch (option) {
		case 'd':
			claims->deaf = true;
			break;
		case 'r':
			refuses = true;
			break;
		case '1':
			claims->once = true;
			break;
		case 'm':
			claims->held = strtoull(optarg, NULL, 10);
			break;
		case 's':
			claims->spilled = strtoull(optarg, NULL, 10);
			break;
		case 'i':
			claims->idle_ns = strtoull(optarg, NULL, 10);
			break;
		case 'b':
			claims->busy_ns = strtoull(optarg, NULL, 10);
			break;
		case 'u':
			snprintf(gpu.uuid, sizeof gpu.uuid, "%s", optarg);
			break;
		case 'c':
			read_counter(optarg, &claims->counter);
			break;
		default:
			exit(2);
		}
	}
}

static void take_step(struct claims *claims)
{
	claims->counter.steps++;
	claims->counter.step_ns += 10000000;
	claims->counter.demoted_bytes += 1 << 20;
}

static void claim(struct segment *segment, const struct claims *claims)
{
	int index = segment_device(segment, &gpu);

	if (index < 0 ||
	    segment_reserve(segment, index, SEGMENT_ON_DEVICE, claims->held, CONFIG_UNLIMITED) ||
	    segment_reserve(segment, index, SEGMENT_ON_HOST, claims->spilled, CONFIG_UNLIMITED))
		fail("no device or no memory");
	device.segment = segment;
	device.is_in_books = true;
	device.index = index;
	device.ledger = segment_own(segment, index).ledger;
	device.statistics = segment_own(segment, index).counters;
	device.placed = segment_own(segment, index).placed;
	device.id.memory = gpu.memory;
	snprintf(device.id.uuid, sizeof device.id.uuid, "%s", gpu.uuid);
	snprintf(device.id.pci_bus_id, sizeof device.id.pci_bus_id, "%s", gpu.pci_bus_id);
	statistics_set(&device.statistics->spilled_bytes, claims->spilled);
	statistics_set(&device.statistics->spills, claims->spilled > 0);
	statistics_set(&device.statistics->spill_reason,
	               claims->spilled > 0 ? SPILL_LIMIT : SPILL_NONE);
	statistics_set(&device.statistics->idle_ns, claims->idle_ns);
	statistics_set(&device.statistics->busy_ns, claims->busy_ns);
}

int main(int argc, char **argv)
{
	const struct timespec interval = {.tv_nsec = 10000000};
	const char *job = getenv("SPILLWAY_JOB");
	char override_file[4096], pause_file[4096], message[512];
	struct claims claims = {0};
	struct segment *segment;
	int steps_taken = 0;

	read_options(argc, argv, &claims);
	signal(SIGTERM, end);
	signal(SIGUSR1, step);
	if (!job || directory_override_path(job, override_file, sizeof override_file) != 0 ||
	    directory_pause_path(job, pause_file, sizeof pause_file) != 0)
		fail("SPILLWAY_JOB: expected a job's name");
	if (segment_join(job, getenv("SPILLWAY_LABELS"), getenv("SPILLWAY_RUN"), &segment, message,
	                 sizeof message) != 0)
		fail(message);
	claim(segment, &claims);
	follow(override_file, pause_file);
	put_counters(&claims.counter);
	printf("ready\n");
	fflush(stdout);
	while (!asked_to_end && !claims.once) {
		nanosleep(&interval, NULL);
		segment_poll(segment);
		page_publish(segment);
		for (; steps_taken < steps_asked_for; steps_taken++)
			take_step(&claims);
		if (!claims.deaf) {
			follow(override_file, pause_file);
			put_counters(&claims.counter);
		}
	}
	segment_exiting(segment);
	page_withdraw(segment);
	segment_leave(segment);
	return 0;
}
