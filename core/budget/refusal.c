/* Refusals and spills. Rules: runs inside the user's process, within its calls. */
#include "core/budget/refusal.h"

#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/rings/event.h"

/*
 * spill_after = auto. A caching allocator gives its cache back when it is refused, and asks again:
 * with what it keeps spilled instead, live memory would lie on the host beside garbage on the
 * device. PyTorch asks three times (c10's CUDACachingAllocator), CuPy likewise. So a thread of such
 * a program is refused twice in a second, and no other program is, which would end: RMM's pools
 * have nothing to give back.
 */
#define REFUSED_WITHIN_NS 1000000000ull

enum { REFUSED_MOST = 2 };

/* A look at the libraries that are loaded. */
struct look {
	unsigned long long before,
	    now; /* how many were ever loaded, at the last look and at this */
	bool found;
};

static int look_at(struct dl_phdr_info *library, size_t size, void *cookie)
{
	struct look *look = cookie;
	const char *name = library->dlpi_name ? library->dlpi_name : "";

	(void)size;
	look->now = library->dlpi_adds;
	look->found = strstr(name, "/libc10_cuda.so") || strstr(name, "/cupy/");
	return look->found || look->now == look->before;
}

static bool gives_back_its_cache(void)
{
	static _Atomic unsigned long long looked_at;
	static _Atomic bool is_known;
	struct look look = {.before = atomic_load_explicit(&looked_at, memory_order_relaxed)};

	if (atomic_load_explicit(&is_known, memory_order_relaxed))
		return true;
	dl_iterate_phdr(look_at, &look);
	if (look.found)
		atomic_store_explicit(&is_known, true, memory_order_relaxed);
	else
		atomic_store_explicit(&looked_at, look.now, memory_order_relaxed);
	return look.found;
}

static bool is_refused_first(void)
{
	/* By thread, as far as there are places: two that meet in one share its refusals. */
	static struct {
		_Atomic uint64_t since_ns;
		_Atomic unsigned int count;
	} places[64], *place;
	uint64_t now = clock_now();
	pthread_t self = pthread_self();

	if (!gives_back_its_cache())
		return false;
	place = &places[hash_bytes(HASH_NOTHING, &self, sizeof(self)) % 64];
	if (now - atomic_load(&place->since_ns) > REFUSED_WITHIN_NS) {
		atomic_store(&place->since_ns, now);
		atomic_store(&place->count, 0);
	}
	return atomic_fetch_add(&place->count, 1) < REFUSED_MOST;
}

bool refusal_is_wanted(const struct device *device, const struct terms *terms)
{
	if (terms->settings.spill_after == CONFIG_AUTO)
		return is_refused_first();
	return device_refusals(device) < terms->settings.spill_after;
}

void refusal_note(struct device *device, uint64_t bytes)
{
	device_note_refusal(device);
	event_note(.kind = EVENT_refusal, .device = device->id.ordinal, .a = bytes,
	           .b = terms_of(device).limit, .c = device_used(device, SEGMENT_ON_DEVICE));
}

const char *refusal_enough(struct device *device, uint64_t bytes, char *buf, size_t size)
{
	const uint64_t mib = (uint64_t)1 << 20;

	/* Whole MiB, never too few. */
	snprintf(buf, size, "memory_limit = %" PRIu64 "MiB would be enough",
	         (device_charged(device, SEGMENT_ON_DEVICE) + bytes + mib - 1) / mib);
	return buf;
}

void spill_note(struct device *device, uint64_t bytes, enum spill_reason reason,
                const struct spilled *what)
{
	struct counters *s = device->statistics;
	char size[32];

	statistics_begin(s);
	statistics_add(&s->spills, 1);
	statistics_add(&s->spilled_bytes, bytes);
	statistics_set(&s->spill_reason, reason);
	statistics_end(s);
	event_note(.kind = EVENT_spill, .device = device->id.ordinal, .a = bytes, .b = reason,
	           .c = device_used(device, SEGMENT_ON_DEVICE), .object = what->object,
	           .context = what->container ? event_context(what->container) : 0);
	log_once(LOG_INFO, "gpu %d: first spill to host memory, %s (%s)", device->id.ordinal,
	         units_format_size(bytes, size, sizeof(size)),
	         reason == SPILL_LIMIT     ? "memory_limit reached"
	         : reason == SPILL_EVICTED ? "evicted"
	         : reason == SPILL_YIELDED ? "other jobs have claimed the device"
	                                   : "device full");
}
