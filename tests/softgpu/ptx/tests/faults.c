/* SPDX-License-Identifier: MIT */
/* Tests failures: faults of kernels, foreign signals, broken text. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <setjmp.h>
#include <signal.h>

/* --- faults --- */

static int polls;

static int poll_three_times(void *cookie)
{
	(void)cookie;
	return ++polls >= 3;
}

static void check_fault(enum ptx_status got, enum ptx_status expected, const char *name,
                        uint64_t address, uint32_t thread, bool write)
{
	check(got == expected, "%s: expected status %d, got %d: %s", name, expected, got,
	      fault.message);
	check(fault.function && !strcmp(fault.function, name), "%s: the fault is in %s", name,
	      fault.function ? fault.function : "nothing");
	check(fault.address == address, "%s: expected address %#llx, got %#llx", name,
	      (unsigned long long)address, (unsigned long long)fault.address);
	check(fault.thread[0] == thread, "%s: expected thread %u, got %u", name, thread,
	      fault.thread[0]);
	check(fault.write == write, "%s: expected write %d, got %d", name, write, fault.write);
	check(fault.message[0] && fault.line, "%s: no message or line", name);
}

void test_faults(const struct ptx_module *m)
{
	int zero = 0, values[32] = {[9] = 3};
	uint64_t d = buffer(NULL, PAGE), null = 0;
	long long far = PAGE / 4 / 8;
	enum ptx_status s = launch(m, "misaligned", 1, 1, 32, 1, &d);
	check_fault(s, PTX_MISALIGNED, "misaligned", d + 2, 1, true);
	/* Thread 8 is the first past the page, which the next one does not follow. */
	s = launch(m, "touch", 1, 1, 32, 1, &d, &far);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "touch", d + PAGE, 8, true);
	s = launch(m, "touch", 1, 1, 32, 1, &null, &far);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "touch", 0, 0, true);
	uint64_t end = (uintptr_t)window + WINDOW - 4;
	s = launch(m, "peek", 1, 1, 32, 1, &end, &d);
	check(s == PTX_ILLEGAL_ADDRESS, "past the window: status %d", s);
	*(int *)on_host(d) = 1;
	s = launch(m, "past_shared", 1, 1, 8, 1, &d);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "past_shared", 32, 7, true);
	*(int *)on_host(d) = zero;
	run_ok(m, "past_shared", 1, 1, 8, 1, &d);
	uint64_t dv = buffer(values, sizeof values);
	s = launch(m, "trap_if", 1, 1, 32, 1, &dv);
	check(s == PTX_TRAP && fault.thread[0] == 9, "trap: status %d, thread %u", s,
	      fault.thread[0]);
	polls = 0;
	next_launch.poll = poll_three_times;
	next_launch.poll_instructions = 5000;
	s = launch(m, "forever", 1, 1, 64, 1, &dv);
	check(s == PTX_STOPPED && polls == 3, "poll: status %d after %d calls", s, polls);

	static int host[64];
	host_low = host;
	host_high = host + 64;
	uint64_t dh = (uintptr_t)host;
	for (int i = 0; i < 64; i++)
		host[i] = i * i;
	run_ok(m, "peek", 1, 1, 64, 1, &dh, &d);
	check(!memcmp(on_host(d), host, sizeof host), "host memory is not what the kernel read");
	host_high = host + 63;
	s = launch(m, "peek", 1, 1, 64, 1, &dh, &d);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "peek", (uintptr_t)(host + 63), 63, false);
	host_low = host_high = NULL;
	run_ok(m, "globals", 1, 1, 64, 1, &d); /* after all that, launches still work */
}

static sigjmp_buf escaped;

static void escape(int number)
{
	(void)number;
	siglongjmp(escaped, 1);
}

void catch_signals(void)
{
	signal(SIGSEGV, escape);
	signal(SIGBUS, escape);
}

/* A signal that is not a kernel's goes to the handler that was there before. */
void test_foreign_signal(void)
{
	int *volatile nowhere = (int *)window;
	if (!sigsetjmp(escaped, 1)) {
		*nowhere = 1;
		check(false, "the window can be written by the application");
	}
}

/* --- text --- */

void test_texts(void)
{
	static const struct {
		const char *text;
		enum ptx_status status;
		const char *log;
	} cases[] = {
	    {"", PTX_INVALID, "line 1: expected .version"},
	    {".version 7.0\n.target sm_75\n.address_size 64\n.entry f() {\n  frob.u32 %r1, 2;\n}",
	     PTX_NOT_SUPPORTED, "line 5: instruction frob.u32"},
	    {".version 7.0\n.entry f() {\n  .reg .b32 %r<2>;\n\n  add.frob.u32 %r1, %r1, 2;\n}",
	     PTX_NOT_SUPPORTED, "line 5: instruction add.frob.u32 (.frob)"},
	    {".version 7.0\n.entry f() { add.u32 %r1, %r1, 2; }", PTX_INVALID,
	     "line 2: add.u32: '%r1' is not declared"},
	    {".version 7.0\n.entry f() { bra L; }", PTX_INVALID, "line 2: 'L' is not a label"},
	    {".version 7.0\n.entry f() {\n", PTX_INVALID, "line 2: '{' without '}'"},
	    {".version 7.0\n.entry f() { .reg .b32 %r<2>; mov.u32 %r1, 0xzz; }", PTX_INVALID,
	     "line 2: bad number '0xzz'"},
	    {".version 7.0\n.extern .func g();\n.entry f() { call g, (); }", PTX_NOT_SUPPORTED,
	     "line 3: function g has no body here"},
	    {".version 7.0\n/* no end", PTX_INVALID, "line 2: comment without end"},
	    /* Results of a size that the instruction does not have. */
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "shfl.sync.idx.b16 %h1, %h1, 0, 31, -1; }",
	     PTX_INVALID, "line 2: shfl.sync.idx.b16"},
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "vote.sync.ballot.b16 %h1, %p, -1; }",
	     PTX_INVALID, "line 2: vote.sync.ballot.b16"},
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "match.any.sync.b16 %r1, %h1, -1; }",
	     PTX_INVALID, "line 2: match.any.sync.b16"},
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "bar.red.popc.u64 %d, 0, %p; }",
	     PTX_INVALID, "line 2: bar.red.popc.u64"},
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "set.eq.pred.u32 %p, %r1, 0; }",
	     PTX_NOT_SUPPORTED, "line 2: instruction set.eq.pred.u32"},
	    {".version 8.0\n.entry f() { .reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %d; .reg "
	     ".pred %p; "
	     "set.eq.u16.f16x2 %h1, %r1, %r1; }",
	     PTX_NOT_SUPPORTED, "line 2: instruction set.eq.u16.f16x2"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ptx_module *m = NULL;
		char log[200];
		enum ptx_status status = ptx_module_load(cases[i].text, strlen(cases[i].text),
		                                         &memory, &m, log, sizeof log);
		check(status == cases[i].status, "text %zu: expected status %d, got %d (%s)", i,
		      cases[i].status, status, log);
		check(!strncmp(log, cases[i].log, strlen(cases[i].log)),
		      "text %zu: expected \"%s\", got \"%s\"", i, cases[i].log, log);
		check(!m, "text %zu: a module in spite of the error", i);
	}
}

/* Loads garbage: whatever the text, loading returns. */
void test_garbage(const char *path)
{
	size_t length;
	char *text = read_whole(path, &length), log[100];
	/* A short copy: damage is found early, so most of a long text would only cost time. */
	char *damaged = malloc(length);
	for (int round = 0; round < 400; round++) {
		struct ptx_module *m = NULL;
		size_t n = length;
		memcpy(damaged, text, length);
		if (round % 2)
			n = random_bits() % length;
		for (uint32_t k = random_bits() % 20; k && n; k--) {
			size_t at = random_bits() % n;
			damaged[at] =
			    round % 3 ? text[random_bits() % length] : (char)random_bits();
		}
		used = 0;
		if (ptx_module_load(damaged, n, &memory, &m, log, sizeof log) == PTX_OK)
			ptx_module_unload(m);
	}
	free(damaged);
	free(text);
	checks++;
}
