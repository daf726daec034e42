/* SPDX-License-Identifier: MIT */
/*
 * Tests mbarrier against the rules of the PTX ISA: one thread's operations at random against a
 * model, a producer and consumers of a ring as CUTLASS writes them, and the undefined cases.
 */
#include "tests/softgpu/ptx/tests/harness.h"

#define HEAD                                              \
	".version 8.3\n.target sm_90\n.address_size 64\n" \
	".visible .entry k(.param .u64 in, .param .u32 n, .param .u64 out)\n{\n"

/* --- random operations of one thread --- */

enum { INIT, ARRIVE, ARRIVE_MANY, DROP, EXPECT, COMPLETE, ARRIVE_EXPECT, COPIED, KINDS };

struct step {
	uint32_t kind, count;
};

struct model {
	int expected, pending, bytes, phase;
};

/* The step on the model; false: PTX forbids it, and the model is as it was. */
static bool model_step(struct model *m, const struct step *s)
{
	struct model next = *m;
	int count = (int)s->count;
	switch (s->kind) {
	case INIT:
		*m = (struct model){count, count, 0, 0};
		return true;
	case ARRIVE:
	case COPIED:
		next.pending--;
		break;
	case ARRIVE_MANY:
		next.pending -= count;
		break;
	case DROP:
		next.pending--;
		next.expected--;
		break;
	case EXPECT:
		next.bytes += count;
		*m = next;
		return true;
	case COMPLETE:
		next.bytes -= count;
		break;
	default:
		next.bytes += count;
		next.pending--;
	}
	if (next.pending < 0 || next.bytes < -4096 || (s->kind == DROP && next.expected < 1))
		return false;
	if (!next.pending && !next.bytes) {
		next.pending = next.expected;
		next.phase++;
	}
	*m = next;
	return true;
}

/* Each step prints: pending before (or 0), whether its own phase and both parities are over. */
static void test_steps(void)
{
	static const char text[] = HEAD
	    ".reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n.shared .b64 bar[2];\n"
	    "ld.param.u64 %d0, [in];\nld.param.u32 %r0, [n];\nld.param.u64 %d1, [out];\n"
	    "mov.u32 %r9, bar;\nmov.u64 %d2, 0;\n"
	    "next:\nld.global.v2.u32 {%r1, %r2}, [%d0];\nmov.u32 %r3, 0;\n"
	    "ts: .branchtargets s0, s1, s2, s3, s4, s5, s6, s7;\nbrx.idx %r1, ts;\n"
	    "s0: mbarrier.init.shared::cta.b64 [%r9+8], %r2;\nld.shared.u64 %d2, [%r9+8];\nbra "
	    "done;\n"
	    "s1: mbarrier.arrive.shared::cta.b64 %d2, [%r9+8];\nbra done;\n"
	    "s2: mbarrier.arrive.release.cta.shared::cta.b64 %d2, [%r9+8], %r2;\nbra done;\n"
	    "s3: mbarrier.arrive_drop.shared.b64 %d2, [%r9+8];\nbra done;\n"
	    "s4: mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r9+8], %r2;\nbra done;\n"
	    "s5: mbarrier.complete_tx.relaxed.cta.shared::cluster.b64 [%r9+8], %r2;\nbra done;\n"
	    "s6: mbarrier.arrive.expect_tx.shared::cta.b64 %d2, [%r9+8], %r2;\nbra done;\n"
	    "s7: cp.async.mbarrier.arrive.shared.b64 [%r9+8];\n"
	    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r9+8];\n"
	    "done:\nmbarrier.pending_count.b64 %r3, %d2;\n"
	    "mbarrier.test_wait.shared.b64 %p0, [%r9+8], %d2;\n"
	    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9+8], 0, 1000;\n"
	    "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r9+8], 1;\n"
	    "selp.u32 %r4, 1, 0, %p0;\nselp.u32 %r5, 1, 0, %p1;\nselp.u32 %r6, 1, 0, %p2;\n"
	    "st.global.v4.u32 [%d1], {%r3, %r4, %r5, %r6};\n"
	    "add.s64 %d0, %d0, 8;\nadd.s64 %d1, %d1, 16;\nsub.u32 %r0, %r0, 1;\n"
	    "setp.ne.u32 %p3, %r0, 0;\n@%p3 bra next;\n"
	    "mbarrier.inval.shared::cta.b64 [%r9+8];\nret;\n}\n";
	enum { STEPS = 400 };
	static struct step steps[STEPS];
	static int expected[STEPS][4];
	struct model m = {0};
	int before = 0, phase = 0; /* of the state that the last arrival gave */
	for (int i = 0; i < STEPS; i++) {
		struct model last;
		do {
			uint32_t kind = i % 50 ? 1 + random_bits() % (KINDS - 1) : INIT;
			uint32_t most = kind == INIT ? 6 : kind == ARRIVE_MANY ? 3 : 64;
			steps[i] = (struct step){kind, 1 + random_bits() % most};
			if (kind == COMPLETE && m.bytes > 0 && random_bits() % 2)
				steps[i].count = (uint32_t)m.bytes;
			last = m;
		} while (!model_step(&m, &steps[i]));
		switch (steps[i].kind) {
		case INIT:
			before = m.pending;
			phase = 0;
			break;
		case EXPECT:
		case COMPLETE:
		case COPIED:
			break;
		default:
			before = last.pending;
			phase = last.phase;
		}
		expected[i][0] = before;
		expected[i][1] = m.phase != phase;
		expected[i][2] = m.phase & 1;
		expected[i][3] = !(m.phase & 1);
	}
	struct ptx_module *module = load_text(text, sizeof text - 1, "mbarrier");
	uint64_t in = buffer(steps, sizeof steps), out = buffer(NULL, sizeof expected);
	uint32_t n = STEPS;
	run_ok(module, "k", 1, 1, 1, 1, &in, &n, &out);
	const int *got = on_host(out);
	for (int i = 0; i < STEPS; i++)
		for (int k = 0; k < 4; k++)
			check(got[4 * i + k] == expected[i][k],
			      "step %d (%u %u), %d: expected %d, got %d", i, steps[i].kind,
			      steps[i].count, k, expected[i][k], got[4 * i + k]);
	ptx_module_unload(module);
}

/* --- a ring --- */

/*
 * Warp 0 fills two places in turn and says so by arrive.expect_tx and complete_tx; the threads of
 * the other two warps wait by parity, read, and arrive at the place's second barrier.
 */
static void test_ring(void)
{
	static const char text[] = HEAD
	    ".reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n"
	    ".shared .b64 full[2];\n.shared .b64 empty[2];\n.shared .b32 place[64];\n"
	    "ld.param.u64 %d0, [in];\nld.param.u32 %r0, [n];\nld.param.u64 %d1, [out];\n"
	    "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 31;\nsetp.ne.u32 %p0, %r1, 0;\n"
	    "@%p0 bra begun;\n"
	    "mbarrier.init.shared::cta.b64 [full], 1;\nmbarrier.init.shared::cta.b64 [full+8], 1;\n"
	    "mbarrier.init.shared::cta.b64 [empty], 64;\n"
	    "mbarrier.init.shared::cta.b64 [empty+8], 64;\nfence.mbarrier_init.release.cluster;\n"
	    "begun:\nbar.sync 0;\nmov.u32 %r3, 0;\nmov.u32 %r14, 0;\n"
	    "round:\nand.b32 %r4, %r3, 1;\nshr.u32 %r5, %r3, 1;\nand.b32 %r5, %r5, 1;\n"
	    "mov.u32 %r6, full;\nshl.b32 %r7, %r4, 3;\nadd.u32 %r6, %r6, %r7;\n"
	    "mov.u32 %r8, empty;\nadd.u32 %r8, %r8, %r7;\nmov.u32 %r9, place;\n"
	    "shl.b32 %r10, %r4, 7;\nadd.u32 %r9, %r9, %r10;\nshl.b32 %r10, %r2, 2;\n"
	    "add.u32 %r9, %r9, %r10;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 bra consume;\n"
	    "xor.b32 %r11, %r5, 1;\n"
	    "wait0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r11;\n"
	    "@%p2 bra go0;\nbra wait0;\ngo0:\n"
	    "shl.b32 %r12, %r3, 5;\nadd.u32 %r12, %r12, %r2;\nmul.wide.u32 %d2, %r12, 4;\n"
	    "add.s64 %d2, %d0, %d2;\nld.global.u32 %r13, [%d2];\nst.shared.u32 [%r9], %r13;\n"
	    "bar.warp.sync -1;\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra filled;\n"
	    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128;\n"
	    "mbarrier.complete_tx.relaxed.cta.shared::cluster.b64 [%r6], 128;\n"
	    "filled:\nbar.warp.sync -1;\nbra end;\n"
	    "consume:\n"
	    "wait1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r5;\n"
	    "@%p2 bra go1;\nbra wait1;\ngo1:\n"
	    "ld.shared.u32 %r13, [%r9];\nmad.lo.u32 %r14, %r14, 3, %r13;\n"
	    "cvta.shared.u64 %d3, empty;\ncvt.u64.u32 %d4, %r7;\nadd.s64 %d3, %d3, %d4;\n"
	    "mbarrier.arrive.b64 _, [%d3];\n"
	    "end:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p4, %r3, %r0;\n@%p4 bra round;\n"
	    "mul.wide.u32 %d2, %r1, 4;\nadd.s64 %d1, %d1, %d2;\nst.global.u32 [%d1], %r14;\n"
	    "ret;\n}\n";
	enum { ROUNDS = 21, WIDTH = 32 };
	static uint32_t values[ROUNDS * WIDTH];
	for (int i = 0; i < ROUNDS * WIDTH; i++)
		values[i] = random_bits();
	struct ptx_module *module = load_text(text, sizeof text - 1, "ring");
	uint64_t in = buffer(values, sizeof values), out = buffer(NULL, 3 * WIDTH * 4);
	uint32_t n = ROUNDS;
	run_ok(module, "k", 1, 1, 3 * WIDTH, 1, &in, &n, &out);
	const uint32_t *got = on_host(out);
	for (int i = WIDTH; i < 3 * WIDTH; i++) {
		uint32_t sum = 0;
		for (int k = 0; k < ROUNDS; k++)
			sum = sum * 3 + values[k * WIDTH + i % WIDTH];
		check_int(got[i], sum);
	}
	ptx_module_unload(module);
}

/* --- mistakes --- */

static void test_mistake(const char *line, enum ptx_status status, const char *message)
{
	static char text[1024];
	int length = snprintf(text, sizeof text,
	                      "%s.shared .b64 bar[2];\n.reg .b64 %%d<2>;\n"
	                      "ld.param.u64 %%d0, [in];\n%s\nret;\n}\n",
	                      HEAD, line);
	struct ptx_module *module = load_text(text, (size_t)length, "mistake");
	uint64_t in = buffer(NULL, 64);
	uint32_t n = 0;
	enum ptx_status got = launch(module, "k", 1, 1, 1, 1, &in, &n, &in);
	check(got == status && strstr(fault.message, message), "%s: %d, '%s'", line, got,
	      fault.message);
	ptx_module_unload(module);
}

void test_mbarriers(void)
{
	test_steps();
	test_ring();
	test_mistake("mbarrier.init.shared.b64 [bar], 0;", PTX_ILLEGAL_INSTRUCTION, "1,048,575");
	test_mistake("mbarrier.init.shared.b64 [bar], 1;\n"
	             "mbarrier.arrive.shared.b64 %d1, [bar], 2;",
	             PTX_ILLEGAL_INSTRUCTION, "more arrivals");
	test_mistake("mbarrier.init.b64 [%d0], 1;", PTX_ILLEGAL_ADDRESS, "not in shared memory");
	test_mistake("mbarrier.init.shared.b64 [bar+4], 1;", PTX_MISALIGNED, "misaligned");
}
