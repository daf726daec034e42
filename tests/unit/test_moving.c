/* SPDX-License-Identifier: MIT */
/*
 * Moves in virtual time: a link of a known speed, a driver that takes time, a program that waits
 * every 25 ms or never. The duration of a move, the time of the closed gate and the program's work
 * meanwhile are exact.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/budget/device.h"
#include "core/budget/reported.h"
#include "core/budget/terms.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/spare.h"
#include "core/memory/arena/heat.h"
#include "core/memory/move/mover.c" /* an answer without a mailbox, too */
#include "core/memory/move/mover.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/idle_point.h"
#include "core/memory/move/movable.h"
#include "core/memory/move/plan.h"
#include "core/memory/own/books.h"
#include "core/state/layout.h"
#include "tests/unit/devices.h"
#include "calls.h"
#include "fake_driver.h"
#include "scratch.h"
#include "state_directory.h"
#include "suite.h"

#define MIB ((size_t)1 << 20)
#define MS  1000000ull

enum {
	DEADLINE_MS = 100,
	COPY_WINDOW_MS = 20,
	CHUNK_MIB = 32,
	CALL_NS = 5000,
	KERNEL_NS = 1000000,
	ASKED_MIB = 512
};

static struct device_set devices;
static struct device *gpu;
static struct segment *segment;

/* --- the world --- */

enum program { NOTHING, WAITS, NEVER };

static struct world {
	uint64_t now, busy_until, link_until;
	double ns_per_byte[2]; /* of the link, by the tier that bytes go to */
	double make_ns_per_byte, make_host_ns_per_byte, release_ns_per_byte;
	bool is_driver_taken; /* it makes or releases memory: a launch would wait for that */
	enum program program;
	uint64_t step_ns;   /* of work that it queues before it waits; 0: as usual */
	uint64_t kernel_ns; /* of what one call queues */
	bool is_held, is_seized;
	uint64_t expiry_ns, passes_at; /* a call that waits at the gate passes then, all the same */
	bool is_at_gate; /* the program, with its next call; else it waits for what it has queued */
	bool is_hidden;  /* its work is in no stream that can be asked */
	uint64_t held_at, held_longest; /* since when the gate is held; longest for nothing */
	uint64_t paused_until; /* the program has come back from a wait, and stays for the mover */
	/* What happened. */
	uint64_t waited_ns; /* for idle points */
	uint64_t held_ns;   /* the gate was held */
	uint64_t worked_ns; /* the program was not kept from launching, or its work ran */
	uint64_t idle_since, longest_idle; /* the gate was seized and nothing ran */
	uint64_t copied;                   /* in the copy window at hand */
	int copy_windows, copies, too_long, made_too_late, freed_too_late;
	uint64_t change_at; /* the limit changes then; 0: never */
	uint64_t change_to;
	uint64_t room_at; /* others make room on the device then; 0: never */
} world;

static void set_limit(uint64_t limit, bool gentle, bool whole);
static bool is_gentle, is_whole;
static enum config_priority priority = PRIORITY_NORMAL;

/* How much work the program has queued when it is not kept from it. */
static uint64_t queued_ns(void)
{
	return world.program == NEVER   ? 8 * MS
	       : world.program == WAITS ? world.step_ns ? world.step_ns : 25 * MS
	                                : 0;
}

/* Time goes by; where the gate is open the program keeps its queue full. */
static void pass(uint64_t ns)
{
	uint64_t until = world.now + ns;
	bool is_held = world.is_held || world.is_driver_taken || until <= world.paused_until;

	if (!is_held && world.program == NEVER && world.busy_until < until + queued_ns())
		world.busy_until = until + queued_ns();
	while (!is_held && world.program == WAITS && world.busy_until <= until)
		world.busy_until =
		    (world.busy_until > world.now ? world.busy_until : world.now) + queued_ns();
	while (world.is_held && !world.is_seized && world.is_at_gate && world.passes_at <= until) {
		world.busy_until =
		    (world.busy_until > world.passes_at ? world.busy_until : world.passes_at) +
		    world.kernel_ns;
		world.passes_at += world.expiry_ns;
	}
	if (world.program != NOTHING && world.busy_until > world.now)
		world.worked_ns += world.busy_until < until ? world.busy_until - world.now : ns;
	world.held_ns += world.is_held ? ns : 0;
	world.now = until;
	if (world.change_at && world.now >= world.change_at) {
		world.change_at = 0;
		set_limit(world.change_to, is_gentle, is_whole);
	}
	if (world.room_at && world.now >= world.room_at) {
		world.room_at = 0;
		wanted_fill(gpu);
	}
}

static uint64_t world_now(void)
{
	return world.now;
}

static void world_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	(void)word, (void)seen;
	if (deadline_ns > world.now)
		pass(deadline_ns - world.now);
	else
		pass(1);
}

static void world_wake(_Atomic uint32_t *word)
{
	(*word)++;
}

static const struct clock world_clock = {world_now, world_wait, world_wake};

enum idle __wrap_idle_now(uint64_t patience_ns);
void __wrap_idle_point_wait(uint64_t ns);
void __wrap_idle_point_take(void);

enum idle __wrap_idle_now(uint64_t patience_ns)
{
	bool is_idle = world.now >= world.busy_until;

	if (!is_idle && world.is_hidden)
		pass(patience_ns);
	return is_idle ? IDLE : IDLE_BUSY;
}

void __wrap_idle_point_wait(uint64_t ns)
{
	uint64_t before = world.now;

	if (world.program == WAITS && world.busy_until - world.now <= ns) {
		world.paused_until = world.busy_until + MS;
		pass(world.busy_until - world.now);
	} else {
		pass(ns);
	}
	world.waited_ns += world.now - before;
}

void __wrap_idle_point_take(void)
{
}

/* What has been found to be best on the host, and on the device; 0: nothing was looked for. */
static CUdeviceptr coldest_run, hottest_run;
static bool is_by_heat; /* that is heat's word, and nothing is decided */

static bool has_decided(const struct device *device, CUdeviceptr address)
{
	(void)device;
	return !is_by_heat && hottest_run && address - hottest_run < ASKED_MIB * MIB;
}

static int ranks_asked;

static uint64_t rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                     uint32_t now)
{
	(void)device;
	(void)touched;
	(void)now;
	ranks_asked++;
	if (coldest_run && address - coldest_run < ASKED_MIB * MIB)
		return 0;
	if (hottest_run && address - hottest_run < ASKED_MIB * MIB)
		return (uint64_t)HEAT_HOT << 32;
	return MOVABLE_RANK;
}

static uint32_t no_time(void)
{
	return 0;
}

static uint32_t whole_run(const struct arena *arena, uint32_t unit)
{
	return atomic_load(&arena->units[unit].run);
}

static bool says_no(const struct device *device)
{
	(void)device;
	return false;
}

static void takes_note(const struct device *device)
{
	(void)device;
}

/* In place of core/modules/placement. */
static const struct placement_calls in_place = {.now = no_time,
                                                .unit = whole_run,
                                                .rank = rank,
                                                .has_decided = has_decided,
                                                .is_awaited = says_no,
                                                .is_full = says_no,
                                                .note_full = takes_note,
                                                .note_even = takes_note};

/* --- the gate, watched --- */

bool __real_gate_hold(uint64_t patience_ns, uint64_t expiry_ns);
bool __wrap_gate_hold(uint64_t patience_ns, uint64_t expiry_ns);
void __real_gate_open(void);
void __wrap_gate_open(void);
void __real_gate_let_in(uint64_t patience_ns);
void __wrap_gate_let_in(uint64_t patience_ns);
bool __real_gate_seize(void);
bool __wrap_gate_seize(void);
void __real_gate_unseize(void);
void __wrap_gate_unseize(void);

static void let_go(void)
{
	if (world.idle_since && world.now - world.idle_since > world.longest_idle)
		world.longest_idle = world.now - world.idle_since;
	world.idle_since = 0;
	world.copied = 0;
}

bool __wrap_gate_hold(uint64_t patience_ns, uint64_t expiry_ns)
{
	world.is_held = __real_gate_hold(patience_ns, expiry_ns);
	world.held_at = world.now;
	world.is_at_gate = world.program == NEVER;
	world.expiry_ns = expiry_ns;
	world.passes_at = world.now + expiry_ns;
	return world.is_held;
}

bool __wrap_gate_seize(void)
{
	world.is_seized = __real_gate_seize();
	return world.is_seized;
}

void __wrap_gate_unseize(void)
{
	world.is_seized = false;
	__real_gate_unseize();
}

/* One call of each thread gets in. */
void __wrap_gate_let_in(uint64_t patience_ns)
{
	let_go();
	world.is_seized = false;
	if (world.program != NOTHING)
		world.busy_until = world.now + world.kernel_ns;
	world.is_at_gate = world.program != NOTHING;
	world.passes_at = world.now + world.expiry_ns;
	__real_gate_let_in(patience_ns);
}

void __wrap_gate_open(void)
{
	if (!world.copied && world.now - world.held_at > world.held_longest)
		world.held_longest = world.now - world.held_at;
	let_go();
	world.is_held = world.is_seized = false;
	__real_gate_open();
}

/* --- the driver --- */

static CUresult has_all(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute != CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
	return CUDA_SUCCESS;
}

static CUresult make_stream(CUstream *stream, unsigned int flags)
{
	(void)flags;
	FAKE_STEP();
	*stream = (CUstream)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult stream_is_done(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

/* The driver is busy with memory for so long, and lets nobody else in. */
static void take_driver(uint64_t ns)
{
	world.is_driver_taken = true;
	pass(ns);
	world.is_driver_taken = false;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
	bool on_host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	double ns_per_byte = world.make_ns_per_byte + (on_host ? world.make_host_ns_per_byte : 0);
	uint64_t ns = (uint64_t)(ns_per_byte * (double)size);

	/*
	 * With the gate closed only while copies last that take longer, but for what is not known
	 * so exactly.
	 */
	if (world.is_held && world.now + ns > world.link_until + MS)
		world.made_too_late++;
	take_driver(ns);
	return fake_create(handle, size, prop, flags);
}

/* The driver refuses each so many-th copy; 0: none. */
static int refused_every;

/*
 * Which tier a copy goes to, as the scratch addresses say: the tier of the memory that is mapped
 * there last.
 */
static enum segment_tier copies_to;

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)to, (void)from, (void)stream;
	FAKE_STEP();
	ck_assert(world.is_held && world.is_seized);
	ck_assert_uint_le(world.busy_until, world.now);
	if (!world.copied) {
		world.copy_windows++;
		world.idle_since = world.now;
	}
	if (refused_every && ++world.copies % refused_every == 0)
		return CUDA_ERROR_UNKNOWN;
	world.copied += size;
	if (world.link_until < world.now)
		world.link_until = world.now;
	world.link_until += (uint64_t)((double)size * world.ns_per_byte[copies_to]);
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
	(void)stream;
	FAKE_STEP();
	if (world.link_until > world.now)
		pass(world.link_until - world.now);
	/*
	 * What the link copies in a copy window's time, or one chunk; nearly, as what was measured
	 * includes remapping.
	 */
	if ((double)world.copied * world.ns_per_byte[copies_to] > (double)(COPY_WINDOW_MS * MS) &&
	    world.copied > CHUNK_MIB * MIB && !is_whole)
		world.too_long++;
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h,
                    unsigned long long flags)
{
	(void)offset, (void)flags;
	pass(CALL_NS);
	FAKE_STEP();
	if (!fake_find(FAKE_PHYSICAL, h) || fake_find(FAKE_PHYSICAL, h)->size != size)
		fake.misuse++;
	for (int i = 0; i < fake.count; i++)
		if (fake.live[i].kind == FAKE_MAPPED && p - fake.live[i].id < fake.live[i].size)
			fake.misuse++;
	fake_add(FAKE_MAPPED, p, size, false);
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	pass(CALL_NS);
	FAKE_STEP();
	for (int i = fake.count; i-- > 0;) {
		if (fake.live[i].kind == FAKE_MAPPED && fake.live[i].id - address < size)
			fake.live[i] = fake.live[--fake.count];
	}
	return CUDA_SUCCESS;
}

static CUresult release_memory(CUmemGenericAllocationHandle handle)
{
	const struct fake_object *memory = fake_find(FAKE_PHYSICAL, handle);
	double bytes = memory ? (double)memory->size : 0;
	uint64_t ns = CALL_NS + (uint64_t)(world.release_ns_per_byte * bytes);

	/* As with memory that is made. */
	if (world.is_held && world.now + ns > world.link_until + 2 * MS)
		world.freed_too_late++;
	take_driver(ns);
	return fake_release(handle);
}

/* --- a job in it --- */

static void set_limit(uint64_t limit, bool gentle, bool whole)
{
	struct config_gpu settings = {.memory = limit,
	                              .host_memory = CONFIG_UNLIMITED,
	                              .host_limit_of_moves = CONFIG_UNLIMITED,
	                              .share = 100000,
	                              .priority = priority,
	                              .spill = SPILL_AUTO,
	                              .shrink = gentle ? SHRINK_GENTLE : SHRINK_FAST,
	                              .mixed = whole ? MIXED_WHOLE : MIXED_AUTO,
	                              .demote_deadline = DEADLINE_MS * MS};

	is_gentle = gentle;
	is_whole = whole;
	device_apply(gpu, &settings);
}

static const struct movable_kind *const kinds[] = {&movable_chunks, &movable_own, NULL};

static void start(size_t memory)
{
	atomic_store(&placement_calls, &in_place);
	fake_driver_reset(memory);
	driver.cuDeviceGetAttribute = has_all;
	driver.cuStreamCreate = make_stream;
	driver.cuStreamDestroy_v2 = stream_is_done;
	driver.cuStreamQuery = stream_is_done;
	driver.cuStreamSynchronize = synchronize;
	driver.cuMemcpyAsync = copy;
	driver.cuMemCreate = create;
	driver.cuMemMap = map;
	driver.cuMemUnmap = unmap;
	driver.cuMemRelease = release_memory;
	memset(&world, 0, sizeof(world));
	world.now = 1000 * MS;
	world.kernel_ns = KERNEL_NS;
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, NULL, 0), 0);
	ck_assert_int_eq(device_set_fill(&devices, segment, "job"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	set_limit(memory, false, false);
	vmem_start(&devices, true);
	plan_kinds(kinds);
	ck_assert_ptr_nonnull(arena_of(gpu));
	clock_in_use = &world_clock;
}

/* A link of so many GB/s each way. */
static void link_is(double out, double back)
{
	world.ns_per_byte[SEGMENT_ON_HOST] = 1 / out;
	world.ns_per_byte[SEGMENT_ON_DEVICE] = 1 / back;
}

static uint64_t charged(void)
{
	return device_charged(gpu, SEGMENT_ON_DEVICE);
}

/* The outcome of a move: how long it took, and for how much of that the program worked. */
struct outcome {
	uint64_t took, worked;
};

/* Looks after the device as the mover does until it is within its limit. */
static struct outcome shrink(uint64_t limit)
{
	struct outcome outcome = {world.now, world.worked_ns};
	struct terms terms;
	struct deadline until;
	int looks = 1000;

	set_limit(limit, is_gentle, is_whole);
	copies_to = SEGMENT_ON_HOST;
	terms = terms_of(gpu);
	until = moving_shrink_deadline(&terms);
	while (terms = terms_of(gpu), charged() > terms_limit_of_movable(&terms) && looks--) {
		/* A driver that refuses is asked again later. */
		if (moving_shrink(gpu, &terms, charged() - terms_limit_of_movable(&terms),
		                  &until) != MOVE_NONE)
			pass(50 * MS);
	}
	ck_assert_int_gt(looks, 0);
	return (struct outcome){world.now - outcome.took, world.worked_ns - outcome.worked};
}

static uint64_t on_host(void)
{
	return device_charged(gpu, SEGMENT_ON_HOST) - device_spare(gpu, SEGMENT_ON_HOST);
}

static struct outcome grow(uint64_t limit)
{
	struct outcome outcome = {world.now, world.worked_ns};
	struct deadline until;
	struct terms terms;
	struct choice hot;
	int looks = 1000;

	set_limit(limit, is_gentle, is_whole);
	copies_to = SEGMENT_ON_DEVICE;
	terms = terms_of(gpu);
	until = moving_deadline(&terms);
	while (on_host() && looks--) {
		terms = terms_of(gpu);
		plan_choose(gpu, SEGMENT_ON_HOST, 0, &hot);
		if (moving_promote(gpu, &terms, terms.limit - charged(), &hot, &until) != MOVE_NONE)
			pass(50 * MS);
	}
	ck_assert_int_gt(looks, 0);
	return (struct outcome){world.now - outcome.took, world.worked_ns - outcome.worked};
}

/* --- how long it takes --- */

enum { JOB_MIB = 2048, MOVED_MIB = 1024, SMALL_MIB = 4, GENTLY = 3 };

static const struct {
	enum program program;
	bool is_gentle;
	double most, works; /* times the link; part of the time */
} bars[] = {
    {WAITS, false, 1.3, 0},
    {NEVER, false, 1.6, 0},
    /* 25 ms of work are queued by the time it is stopped, and 17 are copied, which is 42 / 17. */
    {WAITS, true, 2.25, 0.5},
    {NEVER, true, 2.2, 0.5},
};
/* As a driver was seen to take. */
#define RELEASE_NS_PER_BYTE (2.0 * (double)MS / (CHUNK_MIB * (double)MIB))

static void check_outcome(const char *what, int i, const struct outcome *o)
{
	double link_ns = MOVED_MIB * (double)MIB * world.ns_per_byte[copies_to];
	double took = (double)o->took / link_ns, worked = (double)o->worked / (double)o->took;

	ck_assert_msg(took <= bars[i].most, "%s, case %d: %.2f times the link, bar %.2f", what, i,
	              took, bars[i].most);
	ck_assert_msg(worked >= bars[i].works, "%s, case %d: worked %.2f, bar %.2f", what, i,
	              worked, bars[i].works);
}

/* Each plan waited for it. */
START_TEST(one_deadline_is_waited_for)
{
	CUdeviceptr address;
	struct outcome o;

	start(4096 * MIB);
	link_is(2, 2);
	world.release_ns_per_byte = RELEASE_NS_PER_BYTE;
	world.program = bars[_i].program;
	is_gentle = bars[_i].is_gentle;
	ck_assert_int_eq(allocate(JOB_MIB * MIB, &address), CUDA_SUCCESS);

	o = shrink(MOVED_MIB * MIB);
	ck_assert_uint_ge(world.copy_windows, 20);
	ck_assert_uint_le(world.waited_ns, (DEADLINE_MS + 10) * MS);
	check_outcome("shrink", _i, &o);
	ck_assert_uint_le(fake.device_bytes, MOVED_MIB * MIB);

	world.waited_ns = 0;
	o = grow(4096 * MIB);
	ck_assert_uint_le(world.waited_ns, (DEADLINE_MS + 10) * MS);
	check_outcome("grow", _i, &o);
	ck_assert_int_eq(world.too_long, 0);
	ck_assert_int_eq(world.made_too_late, 0);
	ck_assert_int_eq(world.freed_too_late, 0);
}
END_TEST

/* Of memory in small chunks a shrink takes many plans: the program works between them, too. */
START_TEST(gently_the_program_works_between_plans)
{
	CUdeviceptr address;
	struct outcome o;

	start(4096 * MIB);
	link_is(2, 2);
	world.release_ns_per_byte = RELEASE_NS_PER_BYTE;
	world.program = NEVER;
	is_gentle = true;
	for (int i = 0; i < JOB_MIB / SMALL_MIB; i++)
		ck_assert_int_eq(allocate(SMALL_MIB * MIB, &address), CUDA_SUCCESS);
	o = shrink(MOVED_MIB * MIB);
	check_outcome("shrink", GENTLY, &o);
	o = grow(4096 * MIB);
	check_outcome("grow", GENTLY, &o);
}
END_TEST

/*
 * What an idle point has begun goes on to its end, whatever the link: the next idle point is a long
 * step away. The first chunk alone went, as no more memory was made before its copy had shown how
 * long it takes.
 */
START_TEST(one_idle_point_is_enough)
{
	static const double links[] = {1, 4, 25};
	const uint64_t step_ns = 400 * MS, bytes = 128 * MIB;
	CUdeviceptr address;
	struct outcome o;

	start(4096 * MIB);
	link_is(links[_i], links[_i]);
	world.make_ns_per_byte = 0.02;
	for (int i = 0; i < (int)(bytes / (SMALL_MIB * MIB)); i++)
		ck_assert_int_eq(allocate(SMALL_MIB * MIB, &address), CUDA_SUCCESS);
	world.program = WAITS;
	world.step_ns = step_ns;
	o = shrink(0);
	ck_assert_uint_lt(o.took, step_ns + (uint64_t)(1.5 * (double)bytes / links[_i]));
	world.busy_until = 0;
	o = grow(4096 * MIB);
	ck_assert_uint_lt(o.took, step_ns + (uint64_t)(1.5 * (double)bytes / links[_i]));
	ck_assert_int_eq(world.made_too_late, 0);
}
END_TEST

/* They began at 64 MiB, whatever the link. */
START_TEST(the_first_copy_window_is_one_chunk_and_none_is_longer_than_said)
{
	static const double links[] = {0.1, 1, 4, 50};
	CUdeviceptr address;

	start(4096 * MIB);
	link_is(links[_i], links[_i] / 2);
	world.program = NEVER;
	ck_assert_int_eq(allocate(JOB_MIB * MIB, &address), CUDA_SUCCESS);
	shrink(MOVED_MIB * MIB);
	grow(4096 * MIB);
	ck_assert_int_eq(world.too_long, 0);
	/* The copy, or a chunk's, and what is done beside it. */
	ck_assert_uint_le(
	    world.longest_idle,
	    2 * MS + (uint64_t)fmax(COPY_WINDOW_MS * MS, CHUNK_MIB * (double)MIB *
	                                                     world.ns_per_byte[SEGMENT_ON_DEVICE]));
}
END_TEST

/* Making memory takes longer than copying to it: the gate is not closed for that. */
START_TEST(memory_is_made_while_the_program_works_or_something_is_copied)
{
	CUdeviceptr address;

	start(4096 * MIB);
	link_is(10, 10);
	world.program = NEVER;
	ck_assert_int_eq(allocate(JOB_MIB * MIB, &address), CUDA_SUCCESS);
	world.make_ns_per_byte = 0.01 * (1 << (3 * _i));
	shrink(MOVED_MIB * MIB);
	grow(4096 * MIB);
	ck_assert_int_eq(world.made_too_late, 0);
	ck_assert_int_eq(world.too_long, 0);
}
END_TEST

/* --- what is asked for is had whole --- */

/* Fails unless all chunks are mapped where the arena says, and nothing else is held. */
static void check_books(void)
{
	const struct arena *arena = arena_of(gpu);
	uint64_t on[2] = {0, 0};

	for (uint32_t i = 0; i < arena->top; i++) {
		const struct unit *unit = &arena->units[i];

		if (unit->kind == UNIT_FREE || !unit->units)
			continue;
		ck_assert_ptr_nonnull(fake_find(FAKE_PHYSICAL, unit->handle));
		ck_assert_ptr_nonnull(fake_find(FAKE_MAPPED, arena->base + i * ARENA_UNIT));
		ck_assert_int_eq(fake_find(FAKE_PHYSICAL, unit->handle)->on_device,
		                 unit->tier == SEGMENT_ON_DEVICE);
		on[unit->tier] += unit->units * ARENA_UNIT;
	}
	for (int tier = 0; tier < 2; tier++)
		ck_assert_uint_eq(device_charged(gpu, (enum segment_tier)tier),
		                  on[tier] + device_spare(gpu, (enum segment_tier)tier));
	ck_assert_uint_eq(fake.device_bytes, charged());
	ck_assert_uint_eq(arena->on_host, on[SEGMENT_ON_HOST]);
	ck_assert_int_eq(fake.misuse, 0);
}

/*
 * A job that is full of other memory, up to a limit, and has what is asked about on the host: many
 * slices of it.
 */
static CUdeviceptr fill_up(void)
{
	CUdeviceptr asked, other;

	start(4096 * MIB);
	link_is(2, 2);
	ck_assert_int_eq(allocate(ASKED_MIB * MIB, &asked), CUDA_SUCCESS);
	shrink(0);
	set_limit(ASKED_MIB * MIB, false, false);
	ck_assert_int_eq(allocate(ASKED_MIB * MIB, &other), CUDA_SUCCESS);
	ck_assert_uint_eq(charged(), ASKED_MIB * MIB);
	ck_assert_uint_eq(on_host(), ASKED_MIB * MIB);
	return asked;
}

static void check_is_on_device(CUdeviceptr address, uint64_t bytes)
{
	const struct arena *arena = arena_of(gpu);
	const struct unit *unit = arena_unit(arena, address), *end = unit + bytes / ARENA_UNIT;

	for (; unit < end; unit += unit->units)
		ck_assert_int_eq(unit->tier, SEGMENT_ON_DEVICE);
}

/* Each slice of it takes the place of another, as the limit is full: it gave up after the first. */
START_TEST(what_is_pinned_comes_whole_where_the_limit_is_full)
{
	CUdeviceptr address = fill_up();
	struct wanted_request r = {.device = gpu, .pin = address + MIB, .is_exportable = true};

	world.program = (enum program)_i;
	ck_assert_int_eq(answer_pin(&r), CUDA_SUCCESS);
	check_is_on_device(address, ASKED_MIB * MIB);
	ck_assert_uint_le(charged(), ASKED_MIB * MIB);
	check_books();
}
END_TEST

/* It has been found that the memory is best on the host: it is not what makes room for itself. */
START_TEST(what_is_pinned_does_not_make_room_for_itself)
{
	CUdeviceptr address = fill_up();
	struct wanted_request r = {.device = gpu, .pin = address, .is_exportable = true};

	coldest_run = address;
	ck_assert_int_eq(answer_pin(&r), CUDA_SUCCESS);
	check_is_on_device(address, ASKED_MIB * MIB);
	check_books();
}
END_TEST

/* Failures in the midst are no tries that came to nothing. */
START_TEST(room_is_had_whole_although_moves_fail_in_the_midst)
{
	struct wanted_request r = {.room = ASKED_MIB * MIB};

	fill_up();
	r.device = gpu;
	refused_every = 6;
	ck_assert_int_eq(answer_room(&r), CUDA_SUCCESS);
	refused_every = 0;
	ck_assert_uint_eq(charged(), 0);
	check_books();
}
END_TEST

/* --- what is decided --- */

/* Where each step has no more than a slice of each tier. */
enum { STEPS_TO_SETTLE = 8, STEPS_BY_SLICES = 40 };

/*
 * Half a gigabyte changes places with another by steps of 3 s, at whose ends alone the program
 * waits. Each exchange of a slice held the gate for a second that came to nothing, and rested for
 * four. Where memory of the host takes longer to be made than to be copied to, a slice was all that
 * each step had; so it is where kernels are longer than a call waits at the gate.
 */
START_TEST(what_is_decided_is_done_at_the_next_idle_points)
{
	CUdeviceptr address = fill_up();
	uint64_t began = world.now, held_first = 0;
	uint64_t steps = _i == 1 ? STEPS_BY_SLICES : STEPS_TO_SETTLE;
	struct terms terms;

	hottest_run = address;
	coldest_run = address + ASKED_MIB * MIB;
	world.program = WAITS;
	world.step_ns = 3000 * MS;
	world.kernel_ns = _i == 1 ? 38 * MS : KERNEL_NS;
	world.make_host_ns_per_byte = _i == 2 ? 1 : 0;
	pass(MS);
	world.copy_windows = 0;
	world.held_ns = 0;
	while (world.now - began < steps * world.step_ns) {
		terms = terms_of(gpu);
		if (!balance_fill(gpu, &terms, charged()))
			pass(50 * MS);
		if (!world.copy_windows)
			held_first = world.held_ns;
	}
	ck_assert_uint_le(held_first, 100 * MS);
	check_is_on_device(address, ASKED_MIB * MIB);
	check_books();
	/* And then it is left alone. */
	world.copy_windows = 0;
	world.held_ns = 0;
	for (int i = 0; i < 100; i++, pass(50 * MS))
		ck_assert(!balance_fill(gpu, &terms, charged()));
	ck_assert_int_eq(world.copy_windows, 0);
	ck_assert_uint_eq(world.held_ns, 0);
}
END_TEST

/* --- what heat exchanges --- */

/* Looks after the device so long, as the mover does. */
static void balance_for(uint64_t ns)
{
	struct terms terms;

	for (uint64_t end = world.now + ns; world.now < end;) {
		terms = terms_of(gpu);
		if (!balance_fill(gpu, &terms, charged()))
			pass(50 * MS);
	}
}

static bool is_on_device(CUdeviceptr address)
{
	const struct arena *arena = arena_of(gpu);
	const struct unit *unit = arena_unit(arena, address);

	for (uint32_t i = 0; i < ASKED_MIB / 2; i++)
		if (unit[i].units && unit[i].tier != SEGMENT_ON_DEVICE)
			return false;
	return true;
}

/*
 * What a program uses shifts once: each exchange gains, so it is over soon. Then it uses two parts
 * by turns of which one fits, and each gains nothing: the gate is closed for less and less.
 */
START_TEST(exchanges_rest_as_long_as_they_gain_nothing)
{
	CUdeviceptr address = fill_up(), other = address + ASKED_MIB * MIB;
	uint64_t began, held, first_turns = 0, last_turns;

	is_by_heat = true;
	world.program = WAITS;
	world.step_ns = 10 * MS;
	hottest_run = address;
	coldest_run = other;
	balance_rest(gpu); /* it is known of no exchange */
	pass(2000 * MS);
	world.held_ns = 0;
	began = world.now;
	while (!is_on_device(address))
		balance_for(50 * MS);
	held = world.held_ns;
	ck_assert_uint_le(world.now - began, 12 * held);
	for (int turn = 0; turn < 40; turn++) {
		CUdeviceptr was = hottest_run;

		hottest_run = coldest_run;
		coldest_run = was;
		if (turn == 4)
			first_turns = world.held_ns - held;
		if (turn == 36)
			held = world.held_ns;
		balance_for(500 * MS);
	}
	last_turns = world.held_ns - held;
	ck_assert_uint_lt(last_turns, first_turns);
	ck_assert_uint_le(last_turns, 2000 * MS / 20);
	check_books();
	is_by_heat = false;
}
END_TEST

/* A large chunk of the host is hotter than a small one of the device, which makes no room there. */
START_TEST(what_is_too_large_has_nothing_leave)
{
	CUdeviceptr large, small;

	start(4096 * MIB);
	link_is(2, 2);
	ck_assert_int_eq(allocate(512 * MIB, &large), CUDA_SUCCESS);
	ck_assert_uint_gt(arena_unit(arena_of(gpu), large)->units * ARENA_UNIT, 2 * MIB);
	shrink(0);
	set_limit(2 * MIB, false, false);
	ck_assert_int_eq(allocate(2 * MIB, &small), CUDA_SUCCESS);
	is_by_heat = true;
	world.program = WAITS;
	world.step_ns = 10 * MS;
	hottest_run = large;
	coldest_run = small;
	pass(2000 * MS);
	world.held_ns = 0;
	balance_for(5000 * MS);
	ck_assert_uint_eq(world.held_ns, 0);
	check_is_on_device(small, 2 * MIB);
	check_books();
	is_by_heat = false;
}
END_TEST

/* --- what is yielded --- */

/* Looks after the device as the mover does until the job holds no more than it may. */
static void give_way(void)
{
	struct terms terms = terms_of(gpu);
	struct deadline until = moving_deadline(&terms);
	int looks = 1000;

	copies_to = SEGMENT_ON_HOST;
	while (charged() > terms_limit_of_movable(&terms) && looks--)
		moving_shrink(gpu, &terms, charged() - terms_limit_of_movable(&terms), &until);
	ck_assert_int_gt(looks, 0);
}

static void check_told(uint64_t total, uint64_t used)
{
	struct reported told = {.total = JOB_MIB * MIB};

	ck_assert(report_memory(gpu, &told));
	ck_assert_uint_eq(told.total, total);
	ck_assert_uint_eq(told.used, used);
}

START_TEST(what_is_yielded_leaves_and_comes_back_and_the_limit_is_what_it_was)
{
	CUdeviceptr address, later;
	struct terms terms;

	start(JOB_MIB * MIB);
	link_is(10, 10);
	set_limit(1024 * MIB, false, false);
	ck_assert_int_eq(allocate(ASKED_MIB * MIB, &address), CUDA_SUCCESS);
	check_told(1024 * MIB, ASKED_MIB * MIB);
	/* The lowest bound counts. */
	yield_set(gpu, YIELD_FOR_TURN, 256 * MIB);
	yield_set(gpu, YIELD_FOR_CLAIM, 128 * MIB);
	give_way();
	ck_assert_uint_le(charged(), 128 * MIB);
	ck_assert_uint_eq(charged() + on_host(), ASKED_MIB * MIB);
	check_books();
	/* Nothing comes back; what is new is on the host; and the program is told what it was. */
	terms = terms_of(gpu);
	copies_to = SEGMENT_ON_DEVICE;
	for (int i = 0; i < 10; i++, pass(1000 * MS))
		balance_fill(gpu, &terms, charged());
	ck_assert_uint_le(charged(), 128 * MIB);
	ck_assert_int_eq(allocate(64 * MIB, &later), CUDA_SUCCESS);
	ck_assert_uint_eq(gpu->statistics->spill_reason, SPILL_YIELDED);
	ck_assert_uint_eq(charged() + on_host(), (ASKED_MIB + 64) * MIB);
	ck_assert_uint_le(charged(), 128 * MIB);
	check_told(1024 * MIB, (ASKED_MIB + 64) * MIB);
	ck_assert_uint_eq(terms.limit, 1024 * MIB);
	ck_assert_uint_eq(ledger_read(gpu->ledger).facts.evicted, 0);
	/* What cannot be on the host has all of the limit. */
	ck_assert_int_eq(device_charge(gpu, 512 * MIB), 0);
	device_uncharge(gpu, SEGMENT_ON_DEVICE, 512 * MIB);
	yield_set(gpu, YIELD_FOR_CLAIM, UINT64_MAX);
	terms = terms_of(gpu);
	ck_assert_uint_eq(terms.yields_above, 256 * MIB);
	yield_set(gpu, YIELD_FOR_TURN, UINT64_MAX);
	grow(1024 * MIB);
	ck_assert_uint_eq(charged() - device_spare(gpu, SEGMENT_ON_DEVICE), (ASKED_MIB + 64) * MIB);
	check_books();
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_int_eq(release(later), CUDA_SUCCESS);
}
END_TEST

/* An opportunistic job keeps nobody waiting for a good moment; its own limit is no such matter. */
START_TEST(an_opportunistic_job_gives_at_once)
{
	CUdeviceptr address;

	start(4096 * MIB);
	link_is(10, 10);
	priority = _i ? PRIORITY_OPPORTUNISTIC : PRIORITY_NORMAL;
	ck_assert_int_eq(allocate(ASKED_MIB * MIB, &address), CUDA_SUCCESS);
	world.program = NEVER;
	shrink(256 * MIB);
	ck_assert_uint_ge(world.waited_ns, (DEADLINE_MS - 10) * MS);
	world.waited_ns = 0;
	yield_set(gpu, YIELD_FOR_CLAIM, 128 * MIB);
	shrink(256 * MIB);
	ck_assert_uint_le(charged(), 128 * MIB);
	if (_i)
		ck_assert_uint_eq(world.waited_ns, 0);
	else
		ck_assert_uint_ge(world.waited_ns, (DEADLINE_MS - 10) * MS);
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
}
END_TEST

/*
 * A plan that waits for a good moment is as large as the room was when it was made: when more comes
 * it is made anew, and the moment is waited for no longer.
 */
START_TEST(room_that_comes_while_a_moment_is_waited_for_is_used_then)
{
	const uint64_t bytes = 128 * MIB;
	struct deadline until;
	struct choice hot;
	struct terms terms;
	CUdeviceptr address;
	uint64_t ends;

	start(4096 * MIB);
	link_is(4, 4);
	for (int i = 0; i < (int)(bytes / (SMALL_MIB * MIB)); i++)
		ck_assert_int_eq(allocate(SMALL_MIB * MIB, &address), CUDA_SUCCESS);
	shrink(0);
	world.program = NEVER;
	set_limit(4096 * MIB, false, false);
	terms = terms_of(gpu);
	copies_to = SEGMENT_ON_DEVICE;
	until = moving_deadline(&terms);
	ends = deadline_ends(&until);
	world.room_at = world.now + DEADLINE_MS / 2 * MS;
	plan_choose(gpu, SEGMENT_ON_HOST, 0, &hot);
	ck_assert_int_ne(moving_promote(gpu, &terms, 2 * SMALL_MIB * MIB, &hot, &until), MOVE_NONE);
	ck_assert_uint_lt(world.now, ends);
	ck_assert(wanted_takes_fill(gpu));
	ck_assert_uint_eq(deadline_ends(&until), ends);
	ck_assert_int_eq(moving_promote(gpu, &terms, bytes, &hot, &until), MOVE_NONE);
	ck_assert_uint_eq(on_host(), 0);
	check_books();
}
END_TEST

/*
 * Other programs have taken the device but for a part of what is to come back as a whole: it is
 * tried once and again later, and what was made for it is not kept from them.
 */
START_TEST(what_does_not_fit_is_not_tried_all_the_time)
{
	CUdeviceptr address;
	struct terms terms;
	int again = 0;

	start(1024 * MIB);
	link_is(10, 10);
	set_limit(1024 * MIB, false, true);
	ck_assert_int_eq(allocate(256 * MIB, &address), CUDA_SUCCESS);
	shrink(0);
	set_limit(1024 * MIB, false, true);
	terms = terms_of(gpu);
	spare_trim(gpu, SEGMENT_ON_DEVICE, true);
	fake.device_size = fake.device_bytes + 100 * MIB;
	copies_to = SEGMENT_ON_DEVICE;
	while (balance_fill(gpu, &terms, charged()) && again < 100)
		again++;
	ck_assert_int_le(again, 1);
	ck_assert_uint_eq(charged(), 0);
	ck_assert_uint_eq(on_host(), 256 * MIB);
	/* Once there is room it comes. */
	fake.device_size = 1024 * MIB;
	pass(1500 * MS);
	balance_fill(gpu, &terms, charged());
	ck_assert_uint_eq(on_host(), 0);
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
}
END_TEST

/* Threads other than the mover's add up what can move: they do not ask what it alone writes. */
START_TEST(who_adds_up_asks_for_no_rank)
{
	CUdeviceptr address;
	uint64_t bytes;

	start(8192 * MIB);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ranks_asked = 0;
	ck_assert(plan_movable_now(gpu, SEGMENT_ON_DEVICE, &bytes));
	ck_assert_uint_eq(bytes, 64 * MIB);
	ck_assert(plan_movable_now(gpu, SEGMENT_ON_HOST, &bytes));
	ck_assert_uint_eq(bytes, 0);
	ck_assert_int_eq(ranks_asked, 0);
	/* Nor need it wait for what moves. */
	ck_assert(plan_movable_now(gpu, SEGMENT_ON_DEVICE, &bytes));
	ck_assert_uint_eq(bytes, 64 * MIB);
	plan_lock(gpu);
	ck_assert(!plan_movable_now(gpu, SEGMENT_ON_DEVICE, &bytes));
	plan_unlock(gpu);
	/* Where one lock is taken it gives the others back. */
	movable_chunks.acquire(gpu);
	ck_assert(!plan_movable_now(gpu, SEGMENT_ON_DEVICE, &bytes));
	movable_chunks.release(gpu);
	ck_assert(lock_try(&own_lock));
	lock_release(&own_lock);
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
}
END_TEST

/*
 * A program that always works, in streams that can be asked or not, is kept from launching by each
 * look at it for 0.3 ms at most; a look at work that could not be asked for took five.
 */
START_TEST(a_glance_is_short)
{
	CUdeviceptr address;
	struct deadline until;
	struct terms terms;

	start(4096 * MIB);
	link_is(2, 2);
	ck_assert_int_eq(allocate(ASKED_MIB * MIB, &address), CUDA_SUCCESS);
	world.program = NEVER;
	world.is_hidden = _i;
	pass(MS);
	set_limit(0, false, false);
	terms = terms_of(gpu);
	until = moving_deadline(&terms);
	copies_to = SEGMENT_ON_HOST;
	/* The limit is raised before the gate is held for longer. */
	world.change_at = world.now + DEADLINE_MS * MS - 20 * MS;
	world.change_to = 4096 * MIB;
	moving_shrink(gpu, &terms, charged(), &until);
	ck_assert_uint_eq(world.change_at, 0);
	ck_assert_int_eq(world.copy_windows, 0);
	ck_assert_uint_ge(world.held_ns, _i ? MS : 0);
	ck_assert_uint_le(world.held_longest, MS * 3 / 10);
}
END_TEST

/* --- whatever happens --- */

enum { ALLOCATIONS_MAX = 24, RUNS = 150 };

START_TEST(whatever_happens_all_is_in_its_place_and_no_copy_window_is_too_long)
{
	CUdeviceptr addresses[ALLOCATIONS_MAX];
	int count;

	for (int i = 0; i < 100 * _i; i++) /* numbers of its own */
		scratch_random();
	count = 1 + (int)(scratch_random() % ALLOCATIONS_MAX);
	start(8192 * MIB);
	link_is(0.2 + (double)(scratch_random() % 500) / 10,
	        0.2 + (double)(scratch_random() % 500) / 10);
	world.make_ns_per_byte = (double)(scratch_random() % 100) / 200;
	for (int i = 0; i < count; i++)
		ck_assert_int_eq(allocate((1 + scratch_random() % 200) * MIB, &addresses[i]),
		                 CUDA_SUCCESS);
	for (int round = 0; round < 4; round++) {
		uint64_t limit = scratch_random() % (charged() + on_host() + 1);

		world.program = (enum program)(scratch_random() % 3);
		is_gentle = scratch_random() % 2;
		is_whole = scratch_random() % 4 == 0;
		/* A driver call is refused, or the limit changes in the midst. */
		fake.fail_at =
		    scratch_random() % 2 ? fake.calls + (long)(scratch_random() % 300) : 0;
		fake.failure = scratch_random() % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
		world.change_at =
		    scratch_random() % 2 ? world.now + scratch_random() % (300 * MS) : 0;
		world.change_to = 8192 * MIB;
		shrink(limit);
		check_books();
		world.change_at =
		    scratch_random() % 2 ? world.now + scratch_random() % (300 * MS) : 0;
		grow(8192 * MIB);
		check_books();
	}
	fake.fail_at = 0;
	ck_assert_int_eq(world.too_long, 0);
	ck_assert_int_eq(world.made_too_late, 0);
	for (int i = 0; i < count; i++)
		ck_assert_int_eq(release(addresses[i]), CUDA_SUCCESS);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("moving");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, state_directory_make, state_directory_remove);
	tcase_add_loop_test(tests, one_deadline_is_waited_for, 0, sizeof(bars) / sizeof(*bars));
	tcase_add_test(tests, gently_the_program_works_between_plans);
	tcase_add_loop_test(tests, one_idle_point_is_enough, 0, 3);
	tcase_add_loop_test(tests, the_first_copy_window_is_one_chunk_and_none_is_longer_than_said,
	                    0, 4);
	tcase_add_loop_test(tests, memory_is_made_while_the_program_works_or_something_is_copied, 0,
	                    3);
	tcase_add_loop_test(tests, what_is_pinned_comes_whole_where_the_limit_is_full, 0, 3);
	tcase_add_test(tests, what_is_pinned_does_not_make_room_for_itself);
	tcase_add_test(tests, room_is_had_whole_although_moves_fail_in_the_midst);
	tcase_add_loop_test(tests, what_is_decided_is_done_at_the_next_idle_points, 0, 3);
	tcase_add_test(tests, exchanges_rest_as_long_as_they_gain_nothing);
	tcase_add_test(tests, what_is_too_large_has_nothing_leave);
	tcase_add_test(tests, what_does_not_fit_is_not_tried_all_the_time);
	tcase_add_test(tests, who_adds_up_asks_for_no_rank);
	tcase_add_loop_test(tests, a_glance_is_short, 0, 2);
	tcase_add_test(tests, what_is_yielded_leaves_and_comes_back_and_the_limit_is_what_it_was);
	tcase_add_loop_test(tests, an_opportunistic_job_gives_at_once, 0, 2);
	tcase_add_test(tests, room_that_comes_while_a_moment_is_waited_for_is_used_then);
	tcase_add_loop_test(
	    tests, whatever_happens_all_is_in_its_place_and_no_copy_window_is_too_long, 0, RUNS);
	return suite_run("moving", tests);
}
