/* SPDX-License-Identifier: MIT */
/*
 * Tests control flow, atomics, progress of spinning threads, globals, and the runtime's functions.
 */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>

/* --- control flow --- */

static int diverge_reference(int v)
{
	int sum = 0;
	if (v < 0)
		return -1;
	for (int a = 0; a < v % 37; a++) {
		if (a % 3 == 0) {
			sum += a;
			if ((v ^ a) & 1)
				continue;
			for (int b = 0; b < (v + a) % 5; b++)
				sum = (int)((unsigned)sum * 3 + (unsigned)b);
		} else if (a > 30 && v > 900) {
			break;
		}
		sum ^= a << 3;
	}
	switch (v % 7) {
	case 0:
		return sum;
	case 1:
		return (int)((unsigned)sum * 17);
	case 2:
		sum -= v * v;
		return sum ^ 0x5555;
	case 3:
		return sum ^ 0x5555;
	case 4:
		return (int)((unsigned)sum * 31);
	case 5:
		return sum / (v + 1);
	default:
		return ~sum;
	}
}

static int collatz(int v, int *steps)
{
	int local[4] = {1, 2, 3, 4};
	while (v != 1) {
		local[*steps & 3] += v;
		v = v & 1 ? 3 * v + 1 : v / 2;
		++*steps;
	}
	return local[0] + local[1] * 3 + local[2] * 5 + local[3] * 7;
}

static int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void test_divergence(const struct ptx_module *m)
{
	enum { N = 500 };
	static int x[N];
	int n = N;
	for (int i = 0; i < N; i++)
		x[i] = (int)(random_bits() % 2000) - 200;
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, sizeof x);
	const int *got = on_host(dy);
	run_ok(m, "diverge", 4, 1, 128, 1, &dx, &dy, &n);
	for (int i = 0; i < N; i++)
		check(got[i] == diverge_reference(x[i]), "diverge(%d): expected %d, got %d", x[i],
		      diverge_reference(x[i]), got[i]);
	run_ok(m, "calls", 4, 1, 128, 1, &dy, &n);
	for (int i = 0; i < N; i++) {
		int steps = 0, value = collatz(i + 1, &steps);
		int e = (int)((unsigned)value * 1000u) + steps + fibonacci(i % 10);
		check(got[i] == e, "calls(%d): expected %d, got %d", i, e, got[i]);
	}
	run_ok(m, "indirect", 4, 1, 128, 1, &dy, &n);
	for (int i = 0; i < N; i++)
		check_int(got[i], i & 1 ? -i : i * i);

	static int z[64];
	for (int i = 0; i < 64; i++)
		z[i] = i < 32 ? i : 5;
	uint64_t dz = buffer(z, sizeof z), dv = buffer(NULL, 64 * 8 * 4);
	run_ok(m, "votes", 1, 1, 64, 1, &dz, &dv);
	const uint32_t *votes = on_host(dv);
	for (int i = 0; i < 64; i++) {
		int lane = i % 32, base = i - lane;
		uint32_t ballot = 0, odd = 0, even = 0;
		for (int k = 0; k < 32; k++) {
			ballot |= (uint32_t)(z[base + k] > 3) << k;
			odd |= (uint32_t)(k & 1 && z[base + k] & 2) << k;
			even |= (uint32_t)(!(k & 1) && z[base + k] & 1) << k;
		}
		check_int(votes[i * 8 + 0], ballot);
		check_int(votes[i * 8 + 1], 0);
		check_int(votes[i * 8 + 2], 1);
		check_int(votes[i * 8 + 3], 0xffffffff);
		check_int(votes[i * 8 + 4], z[base + (i / 2 & 31)]);
		check_int(votes[i * 8 + 5], z[lane % 8 >= 3 ? i - 3 : i]);
		check_int(votes[i * 8 + 6], i & 1 ? odd : even);
		check_int(votes[i * 8 + 7], 16 + 32);
	}
}

static void test_atomics(const struct ptx_module *m)
{
	enum { BLOCKS = 3, THREADS = 96, N = BLOCKS * THREADS };
	uint32_t u[10] = {0, 0, 100000, ~0u, 0, 0, 0, 0, 7, 0};
	int32_t s[3] = {1000, -1000, 0};
	uint64_t du = buffer(u, sizeof u), ds = buffer(s, sizeof s), df = buffer(NULL, 4);
	uint64_t dd = buffer(NULL, 8), dl = buffer(NULL, 8);
	run_ok(m, "atomics", BLOCKS, 1, THREADS, 1, &du, &ds, &df, &dd, &dl);
	uint32_t sum = 0, xor = 0, most = 0, least = 100000, up = 0, down = 0;
	for (uint32_t i = 0; i < N; i++) {
		sum += i;
		xor ^= i;
		most = i * 7 % 1001 > most ? i * 7 % 1001 : most;
		least = i * 7 % 1001 + 5 < least ? i * 7 % 1001 + 5 : least;
		up = up >= 99 ? 0 : up + 1;
		down = down == 0 || down > 99 ? 99 : down - 1;
	}
	const uint32_t *gu = on_host(du);
	const int32_t *gs = on_host(ds);
	check_int(gu[0], N);
	check_int(gu[1], most);
	check_int(gu[2], least);
	check_int(gu[3], 0xffff0000);
	check_int(gu[4], 0xffffffff);
	check_int(gu[5], xor);
	check_int(gu[6], up);
	check_int(gu[7], down);
	check_int(gu[8], 7 + sum);
	check_int(gu[9], (2 * THREADS + N - 1) * THREADS / 2);
	check_int(gs[0], -100);
	check_int(gs[1], 50);
	check_int(gs[2], -3 * N);
	check(*(float *)on_host(df) == N * 0.5f, "float sum %g", *(float *)on_host(df));
	check(*(double *)on_host(dd) == N * 0.25, "double sum %g", *(double *)on_host(dd));
	check_int(*(uint64_t *)on_host(dl), (uint64_t)N << 33);
}

static void test_progress(const struct ptx_module *m)
{
	uint64_t lock = buffer(NULL, 4), value = buffer(NULL, 4), out = buffer(NULL, 4 * 32);
	run_ok(m, "spin_lock", 2, 1, 512, 1, &lock, &value);
	check_int(*(int *)on_host(value), 1024);
	check_int(*(int *)on_host(lock), 0);
	uint64_t flag = buffer(NULL, 4);
	run_ok(m, "wait_for_warp", 1, 1, 1024, 1, &flag, &out);
	for (int i = 0; i < 32; i++)
		check_int(((int *)on_host(out))[i], 42);
}

/* --- convergence --- */

enum { WARP_LANES = 32 };

/*
 * Lanes go round a loop that polls, for `rounds`, if `late` says so; the other lanes wait for them
 * or, after long, go on. Then each lane does as `end` says.
 */
static void converge(const char *late, const char *end, uint32_t rounds, uint64_t out)
{
	static const char begin[] =
	    ".version 6.4\n.target sm_75\n.address_size 64\n"
	    ".visible .entry converge(.param .u32 rounds, .param .u64 out)\n{\n"
	    ".reg .pred %p<4>;\n.reg .b32 %r<20>;\n.reg .b64 %d<4>;\n.shared .b32 box[32];\n"
	    "ld.param.u32 %r0, [rounds];\nld.param.u64 %d0, [out];\nmov.u32 %r1, %tid.x;\n"
	    "mov.u32 %r2, box;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r2, %r2, %r3;\n"
	    "mul.wide.u32 %d1, %r1, 4;\nadd.s64 %d0, %d0, %d1;\nst.shared.u32 [%r2], %r1;\n"
	    "mov.u32 %r5, %r1;\nmov.u32 %r9, -1;\n";
	static const char middle[] =
	    "@!%p0 bra met;\n"
	    "again:\nld.volatile.shared.u32 %r4, [%r2];\nsub.s32 %r0, %r0, 1;\n"
	    "setp.ne.s32 %p1, %r0, 0;\n@%p1 bra again;\nadd.s32 %r5, %r1, 100;\nmet:\n";
	static char text[4096];
	int length = snprintf(text, sizeof text, "%s%s%s%s", begin, late, middle, end);
	struct ptx_module *m = load_text(text, (size_t)length, "convergence");
	run_ok(m, "converge", 1, 1, WARP_LANES, 1, &rounds, &out);
	ptx_module_unload(m);
}

static void test_convergence(void)
{
	/* Each lane reads its own place and then writes that of the lane two above. */
	static const char shift[] =
	    "add.s32 %r7, %r1, 2;\nand.b32 %r7, %r7, 31;\nshl.b32 %r7, %r7, 2;\n"
	    "mov.u32 %r8, box;\nadd.s32 %r8, %r8, %r7;\nld.shared.u32 %r6, [%r2];\n"
	    "st.shared.u32 [%r8], %r6;\nst.global.u32 [%d0], %r6;\nret;\n}\n";
	static const char vote_and_shift[] =
	    "vote.sync.ballot.b32 %r7, %p0, %r9;\nadd.s32 %r7, %r1, 2;\nand.b32 %r7, %r7, 31;\n"
	    "shl.b32 %r7, %r7, 2;\nmov.u32 %r8, box;\nadd.s32 %r8, %r8, %r7;\n"
	    "ld.shared.u32 %r6, [%r2];\nst.shared.u32 [%r8], %r6;\nst.global.u32 [%d0], %r6;\n"
	    "ret;\n}\n";
	/* Each half of the warp names itself, and each lane asks the lane eight further on. */
	static const char halves[] =
	    "setp.lt.u32 %p2, %r1, 16;\nselp.b32 %r9, 65535, -65536, %p2;\n"
	    "add.s32 %r7, %r1, 8;\nand.b32 %r7, %r7, 15;\nand.b32 %r8, %r1, 16;\n"
	    "or.b32 %r7, %r7, %r8;\nshfl.sync.idx.b32 %r6, %r5, %r7, 31, %r9;\n"
	    "st.global.u32 [%d0], %r6;\nret;\n}\n";
	enum { SHORT = 40, LONG = 100000 };
	uint64_t out = buffer(NULL, WARP_LANES * 4);
	const uint32_t *got = on_host(out);
	/* A loop of 40 rounds is no reason to go on without the lanes in it. */
	converge("setp.lt.u32 %p0, %r1, 2;\n", shift, SHORT, out);
	for (int i = 0; i < WARP_LANES; i++)
		check_int(got[i], i);
	/* OpenMM's neighbour list: the compiler moves a read of shared memory behind a vote. */
	memset(on_host(out), 0, WARP_LANES * 4);
	converge("setp.ge.u32 %p0, %r1, 30;\n", vote_and_shift, LONG, out);
	for (int i = 0; i < WARP_LANES; i++)
		check_int(got[i], i);
	/* Lanes 16 to 23 come first, then those of the other half, and lanes 24 to 31 last. */
	converge("setp.lt.u32 %p0, %r1, 16;\nsetp.ge.u32 %p2, %r1, 24;\nor.pred %p0, %p0, %p2;\n"
	         "@%p2 shl.b32 %r0, %r0, 1;\n",
	         halves, LONG, out);
	for (int i = 0; i < WARP_LANES; i++) {
		int from = (i & 16) | ((i + 8) & 15);
		check_int(got[i], from >= 16 && from < 24 ? from : from + 100);
	}
}

/*
 * Threads beyond `count` leave early, by way of the place where they meet the others, while those
 * wait at a barrier of the block: it is for the threads that are left.
 */
static void test_early_exit(void)
{
	static const char text[] =
	    ".version 6.4\n.target sm_75\n.address_size 64\n"
	    ".visible .entry leave(.param .u32 count, .param .u64 out)\n{\n"
	    ".reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %d<3>;\n.shared .b32 box[64];\n"
	    "ld.param.u32 %r0, [count];\nld.param.u64 %d0, [out];\nmov.u32 %r1, %tid.x;\n"
	    "mul.wide.u32 %d1, %r1, 4;\nadd.s64 %d0, %d0, %d1;\nmov.u64 %d2, box;\n"
	    "add.s64 %d2, %d2, %d1;\nmov.u32 %r2, 7;\nsetp.ge.u32 %p, %r1, %r0;\n@%p bra met;\n"
	    "st.shared.u32 [%d2], %r1;\nbar.sync 0;\nxor.b32 %r3, %r1, 3;\n"
	    "mul.wide.u32 %d1, %r3, 4;\nmov.u64 %d2, box;\nadd.s64 %d2, %d2, %d1;\n"
	    "ld.shared.u32 %r2, [%d2];\nbar.sync 0;\n"
	    "met:\nst.global.u32 [%d0], %r2;\nret;\n}\n";
	enum { THREADS = 64, COUNT = 40 };
	struct ptx_module *m = load_text(text, sizeof text - 1, "leave");
	uint32_t count = COUNT;
	uint64_t out = buffer(NULL, THREADS * 4);
	run_ok(m, "leave", 1, 1, THREADS, 1, &count, &out);
	for (int i = 0; i < THREADS; i++)
		check_int(((uint32_t *)on_host(out))[i], i < COUNT ? (i ^ 3) : 7);
	ptx_module_unload(m);
}

static void test_globals(const struct ptx_module *m)
{
	static const int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
	static const float table[4] = {0.5f, 1.5f, -2.5f, 0};
	uint64_t dy = buffer(NULL, 64 * 8), address;
	size_t size;
	run_ok(m, "globals", 1, 1, 64, 1, &dy);
	for (int i = 0; i < 64; i++)
		check_int(((int *)on_host(dy))[i],
		          weights[i & 7] * 100 + (int)(table[i & 3] * 2) + 15);
	check(ptx_module_global(m, "counter", &address, &size), "no global 'counter'");
	check_int(size, 4);
	check_int(*(int *)on_host(address), 64);
	check(!ptx_module_global(m, "nothing", &address, &size), "found a global 'nothing'");

	struct {
		char tag;
		double value;
		short list[5];
	} pair = {-5, 1000.75, {1, -2, 3, -4, 5}};
	uint8_t padded[32] = {0};
	memcpy(padded, &pair, sizeof pair);
	run_ok(m, "structs", 1, 1, 64, 1, padded, &dy);
	for (int i = 0; i < 64; i++)
		check_int(((long long *)on_host(dy))[i], 995 + pair.list[i % 5]);
}

void test_control(const struct ptx_module *m)
{
	test_divergence(m);
	test_atomics(m);
	test_progress(m);
	test_convergence();
	test_early_exit();
	test_globals(m);
}

/* --- what needs more than instructions --- */

static void test_programs(const struct ptx_module *m)
{
	enum { N = 4 * 64 };
	static int x[N];
	uint64_t dx = buffer(NULL, sizeof x), dy = buffer(NULL, sizeof x);
	next_launch.cooperative = true;
	run_ok(m, "grid_sync", 4, 1, 64, 1, &dx, &dy);
	for (int i = 0; i < N; i++)
		check_int(((int *)on_host(dy))[i], N - i);

	for (int i = 0; i < N; i++)
		x[i] = i == 37 ? 10 : i % 10;
	memcpy(on_host(dx), x, sizeof x);
	enum ptx_status s = launch(m, "assert_small", 1, 1, 64, 1, &dx);
	check(s == PTX_ASSERT && fault.thread[0] == 37, "assert: status %d, thread %u", s,
	      fault.thread[0]);
	check(strstr(fault.message, "x[threadIdx.x] < 10"), "assert: message '%s'", fault.message);

	int big[20], bins[16] = {0}, n = N;
	for (int i = 0; i < 20; i++)
		big[i] = i * i;
	run_ok(m, "structures", 1, 1, 64, 1, big, &dy);
	for (int i = 0; i < 64; i++) {
		int copy[20], k = i % 20;
		memcpy(copy, big, sizeof big);
		copy[3] = i;
		copy[k & 7] += 5;
		check_int(((int *)on_host(dy))[i], copy[k] + copy[k & 3]);
	}
	unsigned __int128 w[40];
	for (int i = 0; i < 40; i++)
		w[i] = (unsigned __int128)interesting(1) << 64 | interesting(3);
	uint64_t dw = buffer(w, sizeof w), dv = buffer(NULL, 32 * 16);
	run_ok(m, "wide", 1, 1, 32, 1, &dw, &dv);
	for (int i = 0; i < 32; i++) {
		unsigned __int128 e = w[i] * w[i + 1] + w[i + 2] - (w[i] >> 3);
		check(!memcmp((char *)on_host(dv) + i * 16, &e, 16), "wide: %d differs", i);
	}
	for (int i = 0; i < N; i++) {
		x[i] = (int)random_bits();
		bins[x[i] & 15]++;
	}
	memcpy(on_host(dx), x, sizeof x);
	uint64_t db = buffer(NULL, sizeof bins);
	run_ok(m, "shared_atomics", 1, 1, 96, 1, &dx, &db, &n);
	for (int i = 0; i < 16; i++)
		check_int(((int *)on_host(db))[i], bins[i]);
	uint64_t lock = buffer(NULL, 4), value = buffer(NULL, 4);
	run_ok(m, "classic_lock", 2, 1, 128, 1, &lock, &value);
	check_int(*(int *)on_host(value), 256);
	run_ok(m, "no_wait", 1, 1, 128, 1, &dy);
	for (int i = 0; i < 64; i++)
		check(((int *)on_host(dy))[i] >= 2, "no_wait: %d", ((int *)on_host(dy))[i]);
}

/* printf of a kernel, caught in a file. */
static void test_print(const struct ptx_module *m)
{
	char text[200];
	int n = 5;
	capture_begin();
	run_ok(m, "print", 1, 1, 32, 1, &n);
	capture_end(text, sizeof text);
	check(!strcmp(text, "thread 0 of 5: pi is 3.14 123456789abc%\n"
	                    "thread 1 of 5: pi is 3.14 123456789abc%\n"),
	      "printed '%s'", text);
}

/* --- nanosleep --- */

static uint64_t time_now, rested;

static uint64_t clock_read(void *cookie)
{
	return *(uint64_t *)cookie;
}

static void clock_rest(void *cookie, uint64_t until)
{
	rested += until - *(uint64_t *)cookie;
	*(uint64_t *)cookie = until;
}

/* The time a launch of those threads takes by a clock that moves in rests alone. */
static uint64_t time_asleep(const struct ptx_module *m, const char *name, uint32_t threads,
                            uint32_t rounds, uint64_t out)
{
	uint64_t begin = time_now;
	rested = 0;
	next_launch.clock = clock_read;
	next_launch.rest = clock_rest;
	next_launch.poll_cookie = &time_now;
	run_ok(m, name, 1, 1, threads, 1, &rounds, &out);
	check_int(time_now - begin, rested);
	time_now = 0;
	return rested;
}

void test_sleep(void)
{
	static const char text[] =
	    ".version 6.4\n.target sm_75\n.address_size 64\n"
	    /* Every thread: `rounds` naps of 300 ns and as many of (thread) ns. */
	    ".visible .entry naps(.param .u32 rounds, .param .u64 out)\n{\n"
	    ".reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %d;\n"
	    "ld.param.u32 %r0, [rounds];\nld.param.u64 %d, [out];\nmov.u32 %r1, %tid.x;\n"
	    "again:\nnanosleep.u32 300;\nnanosleep.u32 %r1;\n"
	    "sub.s32 %r0, %r0, 1;\nsetp.ne.s32 %p, %r0, 0;\n@%p bra again;\n"
	    "red.global.add.u32 [%d], 1;\nret;\n}\n"
	    /* One nap that is longer than any may be. */
	    ".visible .entry nap(.param .u32 ns, .param .u64 out)\n{\n"
	    ".reg .b32 %r;\nld.param.u32 %r, [ns];\nnanosleep.u32 %r;\nret;\n}\n"
	    /* Thread 0 sleeps until thread 1 of the same warp has spoken. */
	    ".visible .entry wait(.param .u32 ns, .param .u64 out)\n{\n"
	    ".reg .pred %p;\n.reg .b32 %r<4>;\n.reg .b64 %d;\n"
	    "ld.param.u32 %r0, [ns];\nld.param.u64 %d, [out];\nmov.u32 %r1, %tid.x;\n"
	    "setp.eq.s32 %p, %r1, 1;\n@%p bra speak;\n"
	    "again:\nnanosleep.u32 %r0;\nld.volatile.global.u32 %r2, [%d];\n"
	    "setp.eq.s32 %p, %r2, 0;\n@%p bra again;\nret;\n"
	    "speak:\nst.volatile.global.u32 [%d], 1;\nret;\n}\n";
	struct ptx_module *m = load_text(text, sizeof text - 1, "sleep");
	uint64_t out = buffer(NULL, 4);
	check_int(time_asleep(m, "naps", 1, 5, out), 5 * 300);
	/* A warp sleeps as long as the lane that sleeps longest; warps do so side by side. */
	check_int(time_asleep(m, "naps", 32, 5, out), 5 * 331);
	check_int(time_asleep(m, "naps", 64, 5, out), 5 * 363);
	check_int(*(int *)on_host(out), 1 + 32 + 64);
	check_int(time_asleep(m, "nap", 1, 2000000000, out), 1000000);
	/* What a kernel is late a nap may make good, but half of it at most. */
	time_now = 200;
	check_int(time_asleep(m, "nap", 1, 1000, out), 800);
	time_now = 5000;
	check_int(time_asleep(m, "nap", 1, 1000, out), 500);
	*(int *)on_host(out) = 0;
	time_asleep(m, "wait", 2, 100, out);
	check_int(*(int *)on_host(out), 1);
	/* Without a clock it is a turn for the others. */
	uint32_t rounds = 3;
	run_ok(m, "naps", 1, 1, 64, 1, &rounds, &out);
	check_int(*(int *)on_host(out), 1 + 64);
	ptx_module_unload(m);
}

void test_runtime(const struct ptx_module *m)
{
	test_programs(m);
	test_print(m);
}
