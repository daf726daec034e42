/*
 * The mover. Rules: one thread of ours inside the user's process. It blocks every signal, makes no driver call while a
 * capture is active, and closes the gate only for times that have an end.
 *
 * plan     which chunks go where, with the memory they go to; made while the program works
 * closure  the gate is held and seized, nothing runs: the plan is carried out
 */
#include "core/memory/residency.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/base/gate.h"
#include "core/base/log.h"
#include "core/memory/allocation.h"
#include "core/memory/arena.h"
#include "core/memory/elastic.h"
#include "core/memory/growth.h"
#include "core/memory/heat.h"
#include "core/memory/movable.h"
#include "core/memory/quiet.h"
#include "core/memory/spare.h"
#include "core/memory/spilled.h"
#include "core/memory/vmem.h"
#include "core/pace/capture.h"

#define MS 1000000ull

enum { STACK = 128 << 10 };

/* How long a closure may take to come about: each failure in a row doubles it. */
#define HOLD_LEAST (20 * MS)
#define HOLD_MOST  (1000 * MS)
/* A launch that is held so long passes all the same. */
#define EXPIRY (20 * MS)
/* A try at a moment that may be quiet. */
#define GLANCE          (1 * MS)
#define PATIENCE        (5 * MS) /* with cuCtxSynchronize, where all known streams are done */
#define BETWEEN_GLANCES (10 * MS)
/* Promotions are not worth more than a natural moment for so long. */
#define PROMOTE_DEADLINE (500 * MS)
/* What a closure should take at most, for the bytes it copies. */
#define COPY_NS               (10 * MS)
#define BYTES_LEAST           ((uint64_t)32 << 20)
#define BYTES_MOST            ((uint64_t)256 << 20)
#define LOOK_AGAIN            (500 * MS) /* where nothing is wanted */
#define LOOK_SOON             (50 * MS)  /* where something may become possible */
#define ROOM_IS_FOR_ITS_ASKER (1000 * MS)

_Atomic unsigned int residency_waits;

/* What another thread wants of the mover, and waits for. */
struct request {
	struct device *device;
	uint64_t room;      /* bytes to be had on the device; or */
	CUdeviceptr pin;    /* a run that must be on the device and stay */
	bool is_exportable; /* in memory made for export */
	bool is_done;
	CUresult result;
	struct request *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* for the mover */
	pthread_cond_t done;    /* for those who asked */
	bool started, stopping;
	bool woken;  /* something changed since the mover looked last */
	bool moment; /* the program has just waited */
	struct request *requests;
	_Atomic bool is_moving;
} mover = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What the mover knows of a device. */
static struct tended {
	uint64_t hold_ns;
	uint64_t bytes;              /* of one plan, by what copying takes */
	uint64_t no_promotion_until; /* CLOCK_MONOTONIC */
	uint64_t next_look;
} tended[DEVICE_MAX];

static struct plan {
	struct move moves[MOVES_MAX];
	size_t count;
	enum segment_side to;
	bool is_exportable, is_urgent, pins;
	bool spares_go; /* room is wanted: what becomes free is not kept */
	bool (*is_wanted)(struct device *device); /* still; NULL: whatever happens */
} plan;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

/* The device's arena, or NULL: without one nothing of the device moves. */
static struct arena *arena_on(const struct device *device)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];

	return atomic_load_explicit(&range->base, memory_order_acquire) ? range->arena : NULL;
}

static void say_pending(struct device *device, enum move_pending why)
{
	statistics_set(&device->statistics->move_pending, why);
}

/* --- choosing --- */

static const struct movable_kind *const kinds[] = {&movable_chunk};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* The coldest of the device's side, or the hottest of the host's. */
static void choose(struct device *device, enum segment_side side, struct choice *choice)
{
	choice->count = 0;
	for (int i = 0; i < KINDS; i++) {
		pthread_mutex_lock(kinds[i]->lock(device));
		kinds[i]->choose(device, side, choice);
		pthread_mutex_unlock(kinds[i]->lock(device));
	}
}

/* --- plans --- */

static CUresult get_memory(struct device *device, struct physical_chunk *chunk, uint64_t limit)
{
	int error;
	CUresult result;

	if (spare_take(device, chunk))
		return CUDA_SUCCESS;
	error = chunk->side == SEGMENT_ON_HOST
	            ? vmem_charge_host(device, chunk->size)
	            : device_charge(device, SEGMENT_ON_DEVICE, chunk->size, limit);
	if (error) {
		say_pending(device,
		            chunk->side == SEGMENT_ON_HOST ? MOVE_HOST_LIMIT : MOVE_DEVICE_FULL);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = spare_create(device, chunk);
	if (result != CUDA_SUCCESS) {
		device_uncharge(device, chunk->side, chunk->size);
		say_pending(device, result != CUDA_ERROR_OUT_OF_MEMORY ? MOVE_FAILED
		                    : chunk->side == SEGMENT_ON_HOST   ? MOVE_HOST_LIMIT
		                                                       : MOVE_DEVICE_FULL);
	}
	return result;
}

static void drop_memory(struct device *device, const struct move *m)
{
	const struct physical_chunk chunk = {m->to, m->size, plan.to, plan.is_exportable};

	spare_give(device, &chunk);
}

static bool look_locked(struct device *device, struct move *m)
{
	bool can_move;

	pthread_mutex_lock(m->kind->lock(device));
	can_move = m->kind->look(device, m, plan.pins);
	pthread_mutex_unlock(m->kind->lock(device));
	return can_move;
}

/* Adds what is chosen as far as there is memory to go to. Whether it was the memory that ended it. */
static bool fill_plan(struct device *device, const struct choice *choice, uint64_t bytes,
                      uint64_t limit)
{
	uint64_t planned = 0;

	plan.count = 0;
	for (size_t i = 0; i < choice->count && planned < bytes; i++) {
		struct move *m = &plan.moves[plan.count];
		struct physical_chunk chunk = {.side = plan.to,
		                               .is_exportable = plan.is_exportable};

		*m = (struct move){.kind = choice->of[i].kind, .address = choice->of[i].address};
		/* It may have gone meanwhile; what is planned is looked at again. */
		if (!look_locked(device, m) ||
		    (planned && planned + m->size > tended[device->id.ordinal].bytes))
			continue;
		chunk.size = m->size;
		if (get_memory(device, &chunk, limit) != CUDA_SUCCESS)
			return true;
		m->to = chunk.handle;
		planned += chunk.size;
		plan.count++;
	}
	return false;
}

/* --- closures --- */

/* With the locks held: whether it is still as planned; its rights as they are now. */
static bool is_still(struct device *device, struct move *m)
{
	struct move now = {.kind = m->kind, .address = m->address};

	if (!m->kind->look(device, &now, plan.pins) || now.from != m->from || now.size != m->size)
		return false;
	m->access = now.access;
	m->accesses = now.accesses;
	return true;
}

/* Those that are still there, first. */
static size_t sort_out(struct device *device)
{
	size_t still = 0;

	for (size_t i = 0; i < plan.count; i++) {
		struct move m = plan.moves[i];

		if (!is_still(device, &m))
			continue;
		plan.moves[i] = plan.moves[still];
		plan.moves[still++] = m;
	}
	return still;
}

static void count_move(struct device *device, const struct move *m, bool queued)
{
	struct statistics *s = device->statistics;

	if (plan.to == SEGMENT_ON_HOST) {
		statistics_add(&s->demotions, 1);
		statistics_add(&s->demoted_bytes, m->size);
	} else if (!m->is_from_device) {
		statistics_add(&s->promotions, 1);
		statistics_add(&s->promoted_bytes, m->size);
	}
	if (queued)
		statistics_add(&s->queued_moves, 1);
}

/* With the gate seized and nothing running. */
static CUresult carry_out(struct device *device, bool queued)
{
	uint64_t before = now_ns(), bytes = 0, took;
	CUresult result = CUDA_SUCCESS;
	size_t still;

	for (int i = 0; i < KINDS; i++)
		pthread_mutex_lock(kinds[i]->lock(device));
	still = sort_out(device);
	if (still)
		result = moves_run(device, plan.moves, still);
	for (size_t i = 0; i < still; i++) {
		const struct move *m = &plan.moves[i];

		if (!m->is_done)
			continue;
		bytes += m->size;
		count_move(device, m, queued);
		m->kind->moved(device, m, plan.to, plan.is_exportable);
	}
	for (int i = KINDS; i-- > 0;)
		pthread_mutex_unlock(kinds[i]->lock(device));
	took = now_ns() - before;
	if (bytes && took) {
		struct tended *t = &tended[device->id.ordinal];
		uint64_t fitting = (uint64_t)((double)bytes / (double)took * (double)COPY_NS);

		fitting = (t->bytes + fitting) / 2;
		t->bytes = fitting < BYTES_LEAST  ? BYTES_LEAST
		           : fitting > BYTES_MOST ? BYTES_MOST
		                                  : fitting;
	}
	return result;
}

/*
 * Holds the gate for at most `hold_ns` until nothing runs, and carries the plan out. Why it has not come to that, or
 * MOVE_NONE.
 */
static enum move_pending close_and_move(struct device *device, uint64_t patience_ns,
                                        uint64_t hold_ns)
{
	const struct timespec pause = {.tv_nsec = 100000};
	struct statistics *s = device->statistics;
	enum move_pending why = MOVE_INSIDE;
	uint64_t began = now_ns(), took;
	bool queued = false;

	if (!gate_hold(patience_ns, EXPIRY))
		return MOVE_INSIDE;
	do {
		enum quiet quiet;

		if (!gate_seize()) {
			why = MOVE_INSIDE;
			nanosleep(&pause, NULL);
			continue;
		}
		if (capture_is_active()) {
			why = MOVE_CAPTURE;
			break;
		}
		quiet = quiet_now(PATIENCE);
		if (quiet == QUIET) {
			why = carry_out(device, queued) == CUDA_SUCCESS ? MOVE_NONE : MOVE_FAILED;
			break;
		}
		why = quiet == QUIET_BROKEN ? MOVE_FAILED : MOVE_WORK;
		if (quiet == QUIET_BROKEN)
			break;
		queued = true;
		gate_unseize();
		nanosleep(&pause, NULL);
	} while (now_ns() - began < hold_ns);
	gate_open();
	took = now_ns() - began;
	statistics_add(&s->move_ns, took);
	if (took > statistics_get(&s->move_longest_ns))
		statistics_set(&s->move_longest_ns, took);
	return why;
}

static void wait_for_moment(uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&mover.lock);
	mover.moment = false;
	atomic_store(&residency_waits, 1);
	while (!mover.moment && !mover.stopping &&
	       pthread_cond_timedwait(&mover.changed, &mover.lock, &until) == 0)
		;
	atomic_store(&residency_waits, 0);
	pthread_mutex_unlock(&mover.lock);
}

/* Glances at the device at natural moments, and from the deadline on insists. */
static enum move_pending move_in_time(struct device *device, uint64_t deadline_ns)
{
	struct tended *t = &tended[device->id.ordinal];
	uint64_t began = now_ns();
	enum move_pending why;

	for (;;) {
		why = close_and_move(device, GLANCE, 0);
		if (why == MOVE_NONE || why == MOVE_FAILED)
			return why;
		say_pending(device, why);
		if (now_ns() - began >= deadline_ns)
			break;
		wait_for_moment(BETWEEN_GLANCES);
		if (plan.is_wanted && !plan.is_wanted(device))
			return why;
	}
	if (why == MOVE_CAPTURE)
		return why;
	why = close_and_move(device, t->hold_ns, t->hold_ns);
	if (why == MOVE_NONE)
		t->hold_ns = HOLD_LEAST;
	else if (why != MOVE_CAPTURE && t->hold_ns < HOLD_MOST)
		t->hold_ns *= 2;
	return why;
}

/* After the closure: what each chunk left, or what it was to get, is free. */
static void clean_up(struct device *device)
{

	moves_finish(device, plan.moves, plan.count);
	for (size_t i = 0; i < plan.count; i++) {
		const struct move *m = &plan.moves[i];
		/* What is left was not made for export: that is pinned. */
		const struct physical_chunk left = {
		    m->from, m->size, m->is_from_device ? SEGMENT_ON_DEVICE : SEGMENT_ON_HOST,
		    false};

		if (!m->is_done) {
			drop_memory(device, m);
			continue;
		}
		if (plan.spares_go)
			spare_release(device, &left);
		else
			spare_give(device, &left);
	}
	plan.count = 0;
}

/* Makes room for the plan's copies, carries it out in time, cleans up. */
static enum move_pending carry_through(struct device *device, uint64_t deadline_ns)
{
	enum move_pending why = MOVE_FAILED;
	size_t ready;

	ready = moves_prepare(device, plan.moves, plan.count);
	for (size_t i = ready; i < plan.count; i++)
		drop_memory(device, &plan.moves[i]);
	plan.count = ready;
	if (ready) {
		atomic_store(&mover.is_moving, true);
		why = move_in_time(device, deadline_ns);
		atomic_store(&mover.is_moving, false);
	}
	clean_up(device);
	if (why != MOVE_NONE)
		say_pending(device, why);
	return why;
}

/* --- what is wanted --- */

static void look_again_in(struct device *device, uint64_t ns)
{
	uint64_t *next = &tended[device->id.ordinal].next_look, then = now_ns() + ns;

	if (then < *next)
		*next = then;
}

static bool is_over_limit(struct device *device)
{
	return device_charged(device, SEGMENT_ON_DEVICE) > device_limit(device);
}

static bool is_within_limit(struct device *device)
{
	return !is_over_limit(device);
}

/* Demotes the coldest. Whether anything was moved. */
static bool demote(struct device *device, uint64_t bytes, const struct choice *choice,
                   bool is_urgent, bool (*is_wanted)(struct device *device))
{
	struct config_gpu settings = device_settings(device);
	bool no_memory;

	plan = (struct plan){.to = SEGMENT_ON_HOST,
	                     .is_urgent = is_urgent,
	                     .spares_go = is_urgent,
	                     .is_wanted = is_wanted};
	no_memory = fill_plan(device, choice, bytes, 0);
	if (!plan.count) {
		if (!no_memory)
			say_pending(device, MOVE_PINNED);
		return false;
	}
	return carry_through(device, is_urgent ? settings.demote_deadline : PROMOTE_DEADLINE) ==
	       MOVE_NONE;
}

static bool promote(struct device *device, uint64_t bytes, uint64_t limit,
                    const struct choice *choice)
{
	plan = (struct plan){.to = SEGMENT_ON_DEVICE, .is_wanted = is_within_limit};
	fill_plan(device, choice, bytes, limit);
	return plan.count && carry_through(device, PROMOTE_DEADLINE) == MOVE_NONE;
}

static bool shrink(struct device *device, uint64_t bytes, bool (*is_wanted)(struct device *device))
{
	struct choice choice;

	choose(device, SEGMENT_ON_DEVICE, &choice);
	return demote(device, bytes, &choice, true, is_wanted);
}

/* The hottest on the host is hotter than the coldest on the device by more than a chance. */
static bool swap_is_worth(const struct choice *cold, const struct choice *hot)
{
	return cold->count && hot->count &&
	       movable_heat(cold->of[0].rank) < movable_heat(hot->of[0].rank) &&
	       movable_heat(hot->of[0].rank) == HEAT_HOT;
}

/* Cold chunks of the device for the hot ones of the host; what they leave the next look promotes into. */
static bool swap(struct device *device, struct choice *hot)
{
	struct choice cold;
	uint64_t bytes = 0;
	size_t pairs = 0;

	choose(device, SEGMENT_ON_DEVICE, &cold);
	if (!swap_is_worth(&cold, hot))
		return false;
	while (pairs < cold.count && pairs < hot->count &&
	       movable_heat(cold.of[pairs].rank) < movable_heat(hot->of[pairs].rank) &&
	       bytes < tended[device->id.ordinal].bytes)
		bytes += cold.of[pairs++].size;
	cold.count = pairs;
	return demote(device, bytes, &cold, false, is_within_limit);
}

/* Brings back what fits, or what is needed more than what is there. Whether anything was moved. */
static bool fill_device(struct device *device, uint64_t limit, uint64_t charged)
{
	struct tended *t = &tended[device->id.ordinal];
	struct choice hot;
	uint64_t room = limit > charged ? limit - charged : 0;

	if (now_ns() < t->no_promotion_until) {
		look_again_in(device, LOOK_SOON);
		return false;
	}
	choose(device, SEGMENT_ON_HOST, &hot);
	if (!hot.count)
		return false;
	if (room >= hot.of[0].size) {
		if (promote(device, room, limit, &hot))
			return true;
		/* The device is full although the limit is not, or the moment was bad. */
		if (statistics_get(&device->statistics->move_pending) == MOVE_DEVICE_FULL)
			t->no_promotion_until = now_ns() + ROOM_IS_FOR_ITS_ASKER;
	} else {
		say_pending(device, MOVE_NONE);
	}
	return swap(device, &hot);
}

/* What is still beyond the limit: what keeps it there. */
static void say_held(struct device *device)
{
	struct statistics *s = device->statistics;
	enum held_reason why = HELD_PENDING;

	switch (statistics_get(&s->move_pending)) {
	case MOVE_HOST_LIMIT:
		why = HELD_HOST_FULL;
		break;
	case MOVE_PINNED:
		why = statistics_get(&s->pinned_chunks) ? HELD_PINNED : HELD_FOREIGN;
		break;
	}
	statistics_set(&s->held_reason, why);
	device_note_limit(device);
}

static bool tend(struct device *device)
{
	const struct arena *arena = arena_on(device);
	struct tended *t = &tended[device->id.ordinal];
	bool grows = growth_tick(device), moved = false;
	uint64_t limit = device_limit(device);
	uint64_t charged = device_charged(device, SEGMENT_ON_DEVICE);

	if (!t->bytes)
		*t = (struct tended){.hold_ns = HOLD_LEAST, .bytes = 2 * BYTES_LEAST};
	t->next_look = now_ns() + (grows ? GROWTH_INTERVAL_NS : LOOK_AGAIN);
	if (charged > limit && !capture_is_active() &&
	    (spare_trim(device, SEGMENT_ON_DEVICE, true) | elastic_trim(device)))
		charged = device_charged(device, SEGMENT_ON_DEVICE);
	if (charged > limit) {
		if (capture_is_active())
			say_pending(device, MOVE_CAPTURE);
		else
			moved = shrink(device, charged - limit, is_over_limit);
		say_held(device);
		look_again_in(device, LOOK_SOON);
		return moved;
	}
	if (arena->on_host) {
		look_again_in(device, LOOK_SOON);
		if (!capture_is_active())
			moved = fill_device(device, limit, charged);
	}
	if (!moved && !capture_is_active()) {
		uint64_t spares = statistics_get(&device->statistics->device_pool) |
		                  statistics_get(&device->statistics->host_pool);

		if (!arena->on_host)
			say_pending(device, MOVE_NONE);
		spare_trim(device, SEGMENT_ON_DEVICE, false);
		spare_trim(device, SEGMENT_ON_HOST, false);
		if (context_of_device(device, &(struct context){0}))
			spare_prefill(device, limit, arena->on_host ? vmem_host_limit(device) : 0);
		if (spares)
			look_again_in(device, LOOK_AGAIN);
	}
	return moved;
}

/* --- requests --- */

static void answer_room(struct request *r)
{
	const _Atomic uint64_t *demoted = &r->device->statistics->demoted_bytes;
	uint64_t before = statistics_get(demoted), done;

	tended[r->device->id.ordinal].no_promotion_until = now_ns() + ROOM_IS_FOR_ITS_ASKER;
	if (spare_trim(r->device, SEGMENT_ON_DEVICE, true) | elastic_trim(r->device))
		r->result = CUDA_SUCCESS;
	else
		r->result = CUDA_ERROR_OUT_OF_MEMORY;
	do {
		done = statistics_get(demoted) - before;
	} while (done < r->room && shrink(r->device, r->room - done, NULL));
	if (done)
		r->result = CUDA_SUCCESS;
}

/* Once more than it should take; then the asker is told that it is not ready. */
enum { PIN_TRIES = 64 };

static void answer_pin(struct request *r)
{
	const struct movable_kind *kind = &movable_chunk;
	enum move_pending why = MOVE_NONE;

	for (int i = 0; i < PIN_TRIES; i++) {
		uint64_t limit = device_limit(r->device);
		struct choice choice;
		bool no_memory;

		choice.count = 0;
		pthread_mutex_lock(kind->lock(r->device));
		kind->choose_at(r->device, r->pin, r->is_exportable, &choice);
		if (!choice.count)
			kind->pin(r->device, r->pin);
		pthread_mutex_unlock(kind->lock(r->device));
		if (!choice.count) {
			r->result = CUDA_SUCCESS;
			return;
		}
		plan = (struct plan){.to = SEGMENT_ON_DEVICE,
		                     .is_exportable = r->is_exportable,
		                     .is_urgent = true,
		                     .pins = true,
		                     .spares_go = true};
		no_memory = fill_plan(r->device, &choice, BYTES_MOST, limit);
		if (plan.count)
			why = carry_through(r->device, 0);
		else if (no_memory && !shrink(r->device, choice.of[0].size, NULL))
			break;
		if (why == MOVE_CAPTURE || why == MOVE_FAILED)
			break;
	}
	r->result = why == MOVE_NONE     ? CUDA_ERROR_OUT_OF_MEMORY
	            : why == MOVE_FAILED ? CUDA_ERROR_MAP_FAILED
	                                 : CUDA_ERROR_NOT_READY;
}

static void answer_requests(void)
{
	struct request *r;

	pthread_mutex_lock(&mover.lock);
	while ((r = mover.requests) != NULL) {
		mover.requests = r->next;
		pthread_mutex_unlock(&mover.lock);
		if (capture_is_active())
			r->result = CUDA_ERROR_NOT_READY;
		else if (r->pin)
			answer_pin(r);
		else
			answer_room(r);
		pthread_mutex_lock(&mover.lock);
		r->is_done = true;
		pthread_cond_broadcast(&mover.done);
	}
	pthread_mutex_unlock(&mover.lock);
}

/* --- the thread --- */

static void set_sampling(void)
{
	bool spilled = false;

	for (int i = 0; i < DEVICE_MAX; i++) {
		struct arena_range *range = &arena_ranges[i];

		if (atomic_load_explicit(&range->base, memory_order_acquire))
			spilled |= range->arena->on_host != 0;
	}
	heat_sample(spilled ? HEAT_CLOSELY : HEAT_THINLY);
}

static void sleep_until_wanted(void)
{
	uint64_t then = now_ns() + 2 * LOOK_AGAIN;
	struct timespec until;

	for (int i = 0; i < DEVICE_MAX; i++) {
		if (tended[i].next_look && tended[i].next_look < then)
			then = tended[i].next_look;
	}
	until.tv_sec = (time_t)(then / (1000 * MS));
	until.tv_nsec = (long)(then % (1000 * MS));
	pthread_mutex_lock(&mover.lock);
	while (!mover.woken && !mover.requests && !mover.stopping &&
	       pthread_cond_timedwait(&mover.changed, &mover.lock, &until) == 0)
		;
	mover.woken = false;
	pthread_mutex_unlock(&mover.lock);
}

static void *move_on(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-move");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	while (!mover.stopping) {
		bool moved;

		do {
			moved = false;
			answer_requests();
			spilled_poll();
			for (int i = 0; i < DEVICE_MAX && !mover.stopping; i++) {
				struct arena_range *range = &arena_ranges[i];

				if (atomic_load_explicit(&range->base, memory_order_acquire))
					moved |= tend(range->arena->device);
			}
		} while (moved && !mover.stopping);
		set_sampling();
		sleep_until_wanted();
	}
	return NULL;
}

/* With the lock held. */
static bool start(void)
{
	pthread_condattr_t by_monotonic;
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	if (mover.started || mover.stopping)
		return mover.started;
	pthread_condattr_init(&by_monotonic);
	pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&mover.changed, &by_monotonic);
	pthread_cond_init(&mover.done, &by_monotonic);
	pthread_condattr_destroy(&by_monotonic);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	mover.started = pthread_create(&thread, &attributes, move_on, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!mover.started)
		log_once(LOG_WARNING,
		         "no thread for moving memory: what is live stays where it is");
	return mover.started;
}

void residency_wake(struct device *device)
{
	int saved = errno;

	if (!arena_on(device))
		return;
	pthread_mutex_lock(&mover.lock);
	if (start() && !mover.woken) {
		mover.woken = true;
		pthread_cond_signal(&mover.changed);
	}
	pthread_mutex_unlock(&mover.lock);
	errno = saved;
}

void residency_moment(void)
{
	int saved = errno;

	pthread_mutex_lock(&mover.lock);
	mover.moment = true;
	if (mover.started)
		pthread_cond_signal(&mover.changed);
	pthread_mutex_unlock(&mover.lock);
	errno = saved;
}

/* An asker waits for as long as an insisting closure and a shrink before it may take. */
#define ANSWER_TIME_S 5

static CUresult ask(struct request *r)
{
	struct request **last;
	struct timespec until;
	int saved = errno, error = 0;

	if (!arena_on(r->device) || capture_is_active())
		return CUDA_ERROR_NOT_READY;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ANSWER_TIME_S;
	pthread_mutex_lock(&mover.lock);
	if (!start()) {
		pthread_mutex_unlock(&mover.lock);
		return CUDA_ERROR_NOT_READY;
	}
	for (last = &mover.requests; *last; last = &(*last)->next)
		;
	*last = r;
	pthread_cond_signal(&mover.changed);
	while (!r->is_done && !error)
		error = pthread_cond_timedwait(&mover.done, &mover.lock, &until);
	for (last = &mover.requests; *last && *last != r; last = &(*last)->next)
		;
	if (*last) {
		*last = r->next; /* not even begun */
		r->is_done = true;
		r->result = CUDA_ERROR_NOT_READY;
	}
	/* What has begun uses the request: it ends, all its waits are bounded. */
	while (!r->is_done)
		pthread_cond_wait(&mover.done, &mover.lock);
	pthread_mutex_unlock(&mover.lock);
	errno = saved;
	return r->result;
}

bool residency_make_room(struct device *device, uint64_t bytes)
{
	struct request r = {.device = device, .room = bytes};

	return ask(&r) == CUDA_SUCCESS;
}

CUresult residency_pin(struct device *device, CUdeviceptr address, bool is_exportable)
{
	struct request r = {.device = device, .pin = address, .is_exportable = is_exportable};

	return ask(&r);
}

void residency_stop(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	mover.stopping = true;
	for (int i = 0; i < 100 && atomic_load(&mover.is_moving); i++)
		nanosleep(&pause, NULL);
}
