/* SPDX-License-Identifier: MIT */
/*
 * Faults of kernels, explicit ones and signals: both end the work of their thread by a jump
 * back into run.c. Everything a grid holds hangs on struct grid, so nothing is lost by the jump.
 */
#include "alu.h"
#include "machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The handler may be the first to touch it in a thread, so no lazily allocated storage. */
static __thread struct worker *volatile guarded __attribute__((tls_model("initial-exec")));
static struct sigaction before_segv, before_bus;

static bool is_ours(const struct worker *k, uint64_t address)
{
	const struct ptx_memory *m = k->grid->memory;
	if (address - (m->window_base + (uint64_t)m->alias_delta) < m->window_size)
		return true;
	return address >= k->host_low && address < k->host_high;
}

static void chain(int number, siginfo_t *info, void *context)
{
	const struct sigaction *before = number == SIGBUS ? &before_bus : &before_segv;
	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(number, info, context);
	} else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
		before->sa_handler(number);
	} else {
		/* The instruction runs again and this time the default action takes it. */
		signal(number, SIG_DFL);
	}
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	struct worker *k = guarded;
	uint64_t address = (uintptr_t)info->si_addr;
	if (!k || !is_ours(k, address)) {
		chain(number, info, context);
		return;
	}
	guarded = NULL;
	const struct ptx_memory *m = k->grid->memory;
	uint64_t given = address - (uint64_t)m->alias_delta;
	k->fault.address = given - m->window_base < m->window_size ? given : address;
	k->status = PTX_ILLEGAL_ADDRESS;
	siglongjmp(k->failed, 1);
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_signal,
	                           .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, &before_segv);
	sigaction(SIGBUS, &action, &before_bus);
}

void fault_guard(struct worker *worker)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install);
	guarded = worker;
}

void fault_unguard(void)
{
	guarded = NULL;
}

static void name_thread(struct warp *w, uint32_t lane)
{
	struct ptx_fault *fault = &w->worker->fault;
	const uint32_t *size = w->grid->launch->block;
	uint32_t thread = w->index * LANES + lane;
	fault->function = w->grid->function->info.name;
	memcpy(fault->block, w->block->id, sizeof fault->block);
	fault->thread[0] = thread % size[0];
	fault->thread[1] = thread / size[0] % size[1];
	fault->thread[2] = thread / size[0] / size[1];
	fault->line = w->insn ? w->insn->line : 0;
}

void fault_raise(struct warp *w, enum ptx_status status, uint32_t lane, uint64_t address,
                 uint32_t size, bool write, const char *format, ...)
{
	struct worker *k = w->worker;
	va_list args;
	fault_unguard();
	name_thread(w, lane);
	k->fault.address = address;
	k->fault.size = size;
	k->fault.write = write;
	va_start(args, format);
	vsnprintf(k->fault.message, sizeof k->fault.message, format, args);
	va_end(args);
	k->status = status;
	siglongjmp(k->failed, 1);
}

void fault_locate(struct worker *k)
{
	struct warp *w = k->running;
	struct ptx_fault *fault = &k->fault;
	const struct insn *in = w->insn;
	bool access = in->run == memory_load || in->run == memory_store || in->run == memory_atomic;
	struct addresses a;
	uint32_t bytes = in->size * in->count, lane = (uint32_t)__builtin_ctz(w->mask);
	if (access)
		k->grid->alu->addresses(w, in, w->mask, &a);
	for (uint32_t left = access ? w->mask : 0; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		if (fault->address - a.of[i] < bytes) {
			lane = i;
			fault->address = a.of[i];
			break;
		}
	}
	name_thread(w, lane);
	fault->size = bytes;
	fault->write = access && in->run != memory_load;
	snprintf(fault->message, sizeof fault->message,
	         "%s of %u bytes at 0x%llx: not mapped, or without the right to",
	         fault->write ? "write" : "read", bytes, (unsigned long long)fault->address);
}
