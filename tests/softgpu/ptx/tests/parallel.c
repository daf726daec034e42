/* SPDX-License-Identifier: MIT */
/* Tests that grids give the same results however many threads run them, and how they end. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <pthread.h>
#include <time.h>

enum { BLOCKS = 64, THREADS = 64, N = BLOCKS * THREADS };

/* Enough work for helpers to come: a loop whose length differs between blocks. */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 flag;\n"
    ".visible .entry busy(.param .u64 out, .param .u32 rounds) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [out]; ld.param.u32 %r5, [rounds];\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %tid.x;\n"
    "mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2; add.u32 %r4, %r5, %r1; mov.u32 %r6, "
    "%r3;\n"
    "L: mad.lo.u32 %r6, %r6, 1664525, 1013904223; sub.u32 %r4, %r4, 1;\n"
    "setp.ne.u32 %p, %r4, 0; @%p bra L; st.global.u32 [%rd1], %r6; ret; }\n"
    /* As busy, but adds to a sum in single precision. */
    ".visible .entry add_up(.param .u64 out, .param .u32 rounds) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [out]; ld.param.u32 %r4, [rounds];\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %tid.x;\n"
    "cvt.rn.f32.u32 %f1, %r3; add.f32 %f1, %f1, 0f3f800000; rcp.rn.f32 %f1, %f1;\n"
    "L: sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
    "red.global.add.f32 [%rd1], %f1; ret; }\n"
    /* As busy, but one thread of block `bad` writes to address 0. */
    ".visible .entry fault(.param .u64 out, .param .u32 rounds, .param .u32 bad) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p, %q;\n"
    "ld.param.u32 %r4, [rounds]; ld.param.u32 %r5, [bad]; mov.u64 %rd1, 0;\n"
    "mov.u32 %r1, %ctaid.x; setp.eq.u32 %q, %r1, %r5;\n"
    "L: sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
    "@%q st.global.u32 [%rd1], %r4; ret; }\n"
    /* All blocks but the last wait for the last, which nothing but their waiting lets begin. */
    ".visible .entry wait_for_last(.param .u64 out) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, "
    "1;\n"
    "setp.eq.u32 %p, %r1, %r2; @%p st.volatile.global.u32 [flag], 1;\n"
    "L: ld.volatile.global.u32 %r3, [flag]; setp.eq.u32 %p, %r3, 0; @%p bra L;\n"
    "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r3; ret; }\n"
    ".visible .entry forever() { L: bra L; }\n"
    /* Reads host memory, so that host_access() sees on which thread. */
    ".visible .entry touch_host(.param .u64 host, .param .u32 rounds) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [host]; ld.param.u32 %r4, [rounds];\n"
    "L: sub.u32 %r4, %r4, 1; ld.global.u32 %r5, [%rd1]; setp.ne.u32 %p, %r4, 0; @%p bra L; ret; "
    "}\n";

static struct ptx_module *load_for(const char *threads)
{
	setenv("SOFTGPU_THREADS", threads, 1);
	struct ptx_module *m = load_text(text, sizeof text - 1, "parallel");
	unsetenv("SOFTGPU_THREADS");
	return m;
}

static void test_same_results(const struct ptx_module *m)
{
	uint32_t rounds = 200;
	uint64_t out = buffer(NULL, N * 4), sums = buffer(NULL, 8);
	run_ok(m, "busy", BLOCKS, 1, THREADS, 1, &out, &rounds);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t e = i;
		for (uint32_t k = 0; k < rounds + i / THREADS; k++)
			e = e * 1664525 + 1013904223;
		check_int(((uint32_t *)on_host(out))[i], e);
	}
	/* In the order of the blocks, so to the bit. */
	float e = 0;
	for (uint32_t i = 0; i < N; i++)
		e += 1 / ((float)i + 1);
	run_ok(m, "add_up", BLOCKS, 1, THREADS, 1, &sums, &rounds);
	check_int(*(uint32_t *)on_host(sums), float_bits(e));
}

static pthread_t caller;
static int polls, stop_at;
static bool elsewhere, outside;

static int count_polls(void *cookie)
{
	outside |= cookie != &polls;
	elsewhere |= !pthread_equal(pthread_self(), caller);
	return ++polls == stop_at;
}

static void poll_launch(int at)
{
	caller = pthread_self();
	polls = 0;
	stop_at = at;
	next_launch.poll = count_polls;
	next_launch.poll_cookie = &polls;
	next_launch.poll_instructions = 500;
}

static void test_ends(const struct ptx_module *m)
{
	uint32_t rounds = 500, bad = 40;
	uint64_t out = buffer(NULL, N * 4);
	poll_launch(0);
	enum ptx_status s = launch(m, "fault", BLOCKS, 1, THREADS, 1, &out, &rounds, &bad);
	check(s == PTX_ILLEGAL_ADDRESS && fault.block[0] == bad && fault.address == 0 &&
	          fault.write,
	      "fault: status %d, block %u, address %llx", s, fault.block[0],
	      (unsigned long long)fault.address);
	check(polls > 0 && !elsewhere && !outside, "polls: %d, on another thread: %d", polls,
	      elsewhere);
	poll_launch(5);
	s = launch(m, "forever", BLOCKS, 1, THREADS, 1);
	check(s == PTX_STOPPED && polls == 5 && !elsewhere, "stop: status %d, polls %d", s, polls);
	poll_launch(0);
	run_ok(m, "busy", BLOCKS, 1, THREADS, 1, &out, &rounds);
}

static void test_waiting_blocks(const struct ptx_module *m)
{
	enum { WAITING = 20 };
	uint64_t flag, out = buffer(NULL, WAITING * 4);
	size_t size;
	check(ptx_module_global(m, "flag", &flag, &size), "no flag");
	*(uint32_t *)on_host(flag) = 0;
	run_ok(m, "wait_for_last", WAITING, 1, 1, 1, &out);
	for (int i = 0; i < WAITING; i++)
		check_int(((uint32_t *)on_host(out))[i], 1);
}

static bool helped;

static bool watch_access(void *cookie, uint64_t address, size_t size, bool write)
{
	(void)cookie;
	(void)address;
	(void)size;
	(void)write;
	if (!pthread_equal(pthread_self(), caller))
		__atomic_store_n(&helped, true, __ATOMIC_RELAXED);
	return true;
}

/* Returns whether help comes in time for one grid is the system's affair; for many it does. */
static void test_help(void)
{
	uint32_t value = 7, rounds = 3000;
	uint64_t address = (uintptr_t)&value;
	struct ptx_memory before = memory;
	memory.host_access = watch_access;
	struct ptx_module *m = load_for("2");
	memory = before;
	caller = pthread_self();
	time_t end = time(NULL) + 20;
	while (!__atomic_load_n(&helped, __ATOMIC_RELAXED) && time(NULL) < end)
		run_ok(m, "touch_host", BLOCKS, 1, THREADS, 1, &address, &rounds);
	check(__atomic_load_n(&helped, __ATOMIC_RELAXED), "no helper came");
	ptx_module_unload(m);
}

void test_parallel(void)
{
	static const char *const threads[] = {"1", "2", "5"};
	for (int i = 0; i < 3; i++) {
		empty_memory();
		struct ptx_module *m = load_for(threads[i]);
		test_same_results(m);
		test_ends(m);
		test_waiting_blocks(m);
		ptx_module_unload(m);
	}
	test_help();
}
