/* SPDX-License-Identifier: MIT */
/*
 * malloc, free and cudaGraphSetConditional of device code. A kernel that uses them has one thread
 * of the host, so each run of a program finds the same addresses.
 */
#include "device_calls.h"

#include <string.h>

enum { LEAST_ALIGNMENT = 16 }; /* of what malloc gives, as the programming guide has it */

static uint8_t *parameter_bytes(const struct warp *w, uint32_t lane, uint32_t offset)
{
	return w->local + (size_t)lane * w->local_capacity + w->frame->local_base + offset;
}

uint64_t call_argument(const struct warp *w, const struct call *call, uint32_t lane, uint32_t i)
{
	uint64_t value = 0;
	memcpy(&value, parameter_bytes(w, lane, call->arguments[i]),
	       call->argument_sizes[i] < 8 ? call->argument_sizes[i] : 8);
	return value;
}

void call_result(struct warp *w, const struct call *call, uint32_t lane, uint64_t value)
{
	memcpy(parameter_bytes(w, lane, call->results[0]), &value,
	       call->result_sizes[0] < 8 ? call->result_sizes[0] : 8);
}

void kernel_malloc(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct call *call = &w->frame->function->calls[in->target];
	const struct ptx_memory *m = w->grid->memory;
	for (; mask; mask &= mask - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(mask);
		uint64_t size = call_argument(w, call, lane, 0);
		uint64_t align =
		    call->argument_count > 1 ? call_argument(w, call, lane, 1) : LEAST_ALIGNMENT;
		if (align < LEAST_ALIGNMENT)
			align = LEAST_ALIGNMENT;
		bool sane = size && !(align & (align - 1)) && m->heap_allocate;
		fault_unguard();
		uint64_t address = sane ? m->heap_allocate(m->cookie, size, align) : 0;
		fault_guard(w->worker);
		call_result(w, call, lane, address);
	}
}

void kernel_free(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct call *call = &w->frame->function->calls[in->target];
	const struct ptx_memory *m = w->grid->memory;
	for (; mask; mask &= mask - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(mask);
		uint64_t address = call_argument(w, call, lane, 0);
		if (!address)
			continue;
		fault_unguard();
		bool freed = m->heap_free && m->heap_free(m->cookie, address);
		fault_guard(w->worker);
		if (!freed)
			fault_raise(w, PTX_ILLEGAL_ADDRESS, lane, address, 0, true,
			            "free of 0x%llx, which malloc has not given",
			            (unsigned long long)address);
	}
}

void kernel_set_conditional(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct call *call = &w->frame->function->calls[in->target];
	const struct ptx_memory *m = w->grid->memory;
	for (; mask; mask &= mask - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(mask);
		uint64_t handle = call_argument(w, call, lane, 0);
		uint32_t value = (uint32_t)call_argument(w, call, lane, 1);
		fault_unguard();
		bool known = m->set_conditional && m->set_conditional(m->cookie, handle, value);
		fault_guard(w->worker);
		if (!known)
			fault_raise(w, PTX_ILLEGAL_ADDRESS, lane, handle, 0, true,
			            "0x%llx is no conditional handle of this context",
			            (unsigned long long)handle);
	}
}
