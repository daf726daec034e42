/* SPDX-License-Identifier: MIT */
/*
 * Loads, stores and atomic operations.
 *
 * An access turns into one host pointer per lane. When all lanes lie in one stretch of one space,
 * which is the rule, that takes one check for the warp; else each lane is resolved by itself.
 * The host pointers may lead to memory that the kernel has no right to: that is a signal, which
 * fault.c turns into the fault of the grid. Kernels race by their nature, so sanitizers look away.
 */
#include "alu.h"
#include "approx.h"
#include "machine.h"

#include <string.h>

#define RAW __attribute__((no_sanitize("address", "thread", "undefined")))

static enum space split_generic(uint64_t *address)
{
	static const enum space spaces[] = {SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM,
	                                    SPACE_GRID};
	uint64_t tag = *address >> GENERIC_SHIFT;
	if (tag >= sizeof spaces / sizeof *spaces)
		return SPACE_GLOBAL;
	*address &= ((uint64_t)1 << GENERIC_SHIFT) - 1;
	return spaces[tag];
}

static bool in_range(uint64_t address, uint64_t bytes, uint64_t base, uint64_t size)
{
	return bytes <= size && address - base <= size - bytes;
}

static bool global_range(struct warp *w, uint64_t low, uint64_t bytes, bool write, uintptr_t *at)
{
	const struct ptx_memory *m = w->grid->memory;
	if (in_range(low, bytes, m->window_base, m->window_size)) {
		*at = (uintptr_t)low + (uintptr_t)m->alias_delta;
		if (m->window_access) {
			fault_unguard();
			m->window_access(m->cookie, low, bytes);
			fault_guard(w->worker);
		}
		return true;
	}
	if (!m->host_access || low + bytes < low)
		return false;
	fault_unguard();
	bool allowed = m->host_access(m->cookie, low, bytes, write);
	fault_guard(w->worker);
	if (!allowed)
		return false;
	w->worker->host_low = low;
	w->worker->host_high = low + bytes;
	*at = (uintptr_t)low;
	return true;
}

/* Where a range of a space is that all lanes share; false: not there, or not as one piece. */
static bool shared_range(struct warp *w, enum space space, uint64_t low, uint64_t bytes, bool write,
                         uintptr_t *at)
{
	struct grid *g = w->grid;
	switch (space) {
	case SPACE_SHARED:
		*at = (uintptr_t)w->block->shared + (uintptr_t)low;
		return in_range(low, bytes, 0, g->shared_bytes);
	case SPACE_PARAM:
		*at = (uintptr_t)g->parameters + (uintptr_t)low;
		return !write && in_range(low, bytes, 0, g->function->info.parameter_bytes);
	case SPACE_GRID:
		*at = (uintptr_t)g->grid_words + (uintptr_t)low;
		return in_range(low, bytes, 0, sizeof g->grid_words);
	case SPACE_GLOBAL:
	case SPACE_CONST:
		return global_range(w, low, bytes, write, at);
	default:
		return false;
	}
}

void *memory_resolve(struct warp *w, enum space space, uint32_t lane, uint64_t address,
                     uint32_t size, bool write)
{
	static const char *const names[] = {
	    [SPACE_GLOBAL] = "global",  [SPACE_SHARED] = "shared",   [SPACE_LOCAL] = "local",
	    [SPACE_CONST] = "constant", [SPACE_PARAM] = "parameter", [SPACE_GRID] = "grid",
	};
	uint64_t given = address;
	uintptr_t at;
	if (space == SPACE_GENERIC)
		space = split_generic(&address);
	if (space == SPACE_LOCAL) {
		if (in_range(address, size, 0, w->frame->local_top))
			return w->local + (size_t)lane * w->local_capacity + address;
	} else if (shared_range(w, space, address, size, write, &at)) {
		return (void *)at;
	}
	fault_raise(w, PTX_ILLEGAL_ADDRESS, lane, given, size, write,
	            "%s of %u bytes at 0x%llx: no such %s memory", write ? "write" : "read", size,
	            (unsigned long long)given, names[space]);
}

static void find_pointers(struct warp *w, const struct insn *in, uint32_t mask, bool write,
                          struct pointers *p)
{
	struct addresses a;
	uint32_t bytes = in->size * in->count;
	enum space space = in->space;
	w->insn = in;
	w->mask = mask;
	w->grid->alu->addresses(w, in, mask, &a);
	if (a.low_bits & (bytes - 1)) {
		uint32_t lane = 0;
		while (!(mask >> lane & 1) || !(a.of[lane] & (bytes - 1)))
			lane++;
		fault_raise(w, PTX_MISALIGNED, lane, a.of[lane], bytes, write,
		            "%s of %u bytes at 0x%llx: misaligned", write ? "write" : "read", bytes,
		            (unsigned long long)a.of[lane]);
	}
	uint64_t low = a.low, high = a.high;
	if (space == SPACE_GENERIC) {
		enum space other = split_generic(&high);
		space = split_generic(&low);
		if (space != other)
			space = SPACE_NONE;
	}
	uintptr_t at;
	if (space < SPACE_NONE && space != SPACE_LOCAL &&
	    shared_range(w, space, low, high - low + bytes, write, &at)) {
		p->pattern = a.pattern;
		p->of[0] = (uintptr_t)a.of[0] + (at - (uintptr_t)a.low);
		for (int i = 1; i < LANES && a.pattern == PATTERN_ANY; i++)
			p->of[i] = (uintptr_t)a.of[i] + (at - (uintptr_t)a.low);
		return;
	}
	uint32_t some = (uint32_t)__builtin_ctz(mask);
	void *instead = memory_resolve(w, in->space, some, a.of[some], bytes, write);
	for (uint32_t i = 0; i < LANES; i++)
		p->of[i] = (uintptr_t)(mask >> i & 1
		                           ? memory_resolve(w, in->space, i, a.of[i], bytes, write)
		                           : instead);
	p->pattern = PATTERN_ANY;
}

void memory_load(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct pointers p;
	w->polls |= in->polling;
	find_pointers(w, in, mask, false, &p);
	for (uint32_t k = 0; k < in->count; k++)
		w->grid->alu->load[__builtin_ctz(in->size)](lanes(w, in->d[k]), &p, k * in->size,
		                                            mask);
}

/*
 * cp.async: the first s[1] bytes of a lane's come from memory, the rest is zero. Memory behind them
 * may not be there at all.
 */
RAW void memory_load_padded(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t bytes = in->size * in->count, *wanted = lanes(w, in->s[1]);
	uint32_t whole = 0, part = 0;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		if (wanted[i] >= bytes) {
			whole |= 1u << i;
			continue;
		}
		part |= wanted[i] ? 1u << i : 0;
		for (uint32_t k = 0; k < in->count; k++)
			((uint32_t *)lanes(w, in->d[k]))[i] = 0;
	}
	if (whole)
		memory_load(w, in, whole);
	struct addresses a;
	if (part) {
		w->insn = in;
		w->mask = part;
		w->grid->alu->addresses(w, in, part, &a);
	}
	for (; part; part &= part - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(part);
		const uint8_t *from = memory_resolve(w, in->space, i, a.of[i], wanted[i], false);
		for (uint32_t k = 0; k < wanted[i]; k++)
			((uint8_t *)lanes(w, in->d[k / 4]))[4 * i + k % 4] = from[k];
	}
}

void memory_store(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct pointers p;
	find_pointers(w, in, mask, true, &p);
	for (uint32_t k = 0; k < in->count; k++)
		w->grid->alu->store[__builtin_ctz(in->size)](lanes(w, in->d[k]), &p, k * in->size,
		                                             mask);
}

/* Orders what this thread of the host does to memory. */
void memory_fence(struct warp *w, const struct insn *in, uint32_t mask)
{
	(void)w;
	(void)in;
	(void)mask;
	__sync_synchronize();
}

/* A kernel parameter at a constant offset: the same for all lanes. */
void memory_load_parameter(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint64_t offset = *(const uint64_t *)lanes(w, in->s[0]) + (uint64_t)in->immediate;
	struct pointers p = {.pattern = PATTERN_SAME};
	uint32_t bytes = in->size * in->count;
	if (!in_range(offset, bytes, 0, w->grid->function->info.parameter_bytes))
		memory_resolve(w, SPACE_PARAM, 0, offset, bytes, false);
	p.of[0] = (uintptr_t)w->grid->parameters + offset;
	for (uint32_t k = 0; k < in->count; k++)
		w->grid->alu->load[__builtin_ctz(in->size)](lanes(w, in->d[k]), &p, k * in->size,
		                                            mask);
}

/* --- atomic operations: lane after lane, so the result is the same each time --- */

bool memory_atomic_is_supported(enum atomic op, enum type type)
{
	if (type_is_float(type))
		return op == ATOMIC_ADD;
	if (type_size(type) == 2)
		return op == ATOMIC_CAS || op == ATOMIC_EXCH;
	return type_size(type) >= 4;
}

static uint16_t combine_16(enum atomic op, enum type type, uint16_t old, uint16_t value,
                           uint16_t other)
{
	if (op == ATOMIC_CAS)
		return old == value ? other : old;
	if (type == TYPE_F16)
		return double_to_half(half_to_float(old) + half_to_float(value), ROUND_NEAREST);
	if (type == TYPE_BF16)
		return double_to_bfloat(bfloat_to_float(old) + bfloat_to_float(value),
		                        ROUND_NEAREST);
	return value;
}

static uint32_t add_pairs(enum type half, uint32_t a, uint32_t b)
{
	uint32_t low = combine_16(ATOMIC_ADD, half, (uint16_t)a, (uint16_t)b, 0);
	uint32_t high = combine_16(ATOMIC_ADD, half, (uint16_t)(a >> 16), (uint16_t)(b >> 16), 0);
	return low | high << 16;
}

static uint32_t combine_32(enum atomic op, enum type type, uint32_t old, uint32_t value,
                           uint32_t other)
{
	bool is_signed = type == TYPE_S32;
	float a, b;
	switch (op) {
	case ATOMIC_ADD:
		if (type == TYPE_F16X2 || type == TYPE_BF16X2)
			return add_pairs(type == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16, old, value);
		if (type != TYPE_F32)
			return old + value;
		memcpy(&a, &old, sizeof a);
		memcpy(&b, &value, sizeof b);
		a += b;
		memcpy(&old, &a, sizeof old);
		return old;
	case ATOMIC_MIN:
		return (is_signed ? (int32_t)value < (int32_t)old : value < old) ? value : old;
	case ATOMIC_MAX:
		return (is_signed ? (int32_t)value > (int32_t)old : value > old) ? value : old;
	case ATOMIC_AND:
		return old & value;
	case ATOMIC_OR:
		return old | value;
	case ATOMIC_XOR:
		return old ^ value;
	case ATOMIC_INC:
		return old >= value ? 0 : old + 1;
	case ATOMIC_DEC:
		return old == 0 || old > value ? value : old - 1;
	case ATOMIC_CAS:
		return old == value ? other : old;
	default:
		return value;
	}
}

static uint64_t combine_64(enum atomic op, enum type type, uint64_t old, uint64_t value,
                           uint64_t other)
{
	bool is_signed = type == TYPE_S64;
	double a, b;
	switch (op) {
	case ATOMIC_ADD:
		if (type != TYPE_F64)
			return old + value;
		memcpy(&a, &old, sizeof a);
		memcpy(&b, &value, sizeof b);
		a += b;
		memcpy(&old, &a, sizeof old);
		return old;
	case ATOMIC_MIN:
		return (is_signed ? (int64_t)value < (int64_t)old : value < old) ? value : old;
	case ATOMIC_MAX:
		return (is_signed ? (int64_t)value > (int64_t)old : value > old) ? value : old;
	case ATOMIC_AND:
		return old & value;
	case ATOMIC_OR:
		return old | value;
	case ATOMIC_XOR:
		return old ^ value;
	case ATOMIC_INC:
		return old >= value ? 0 : old + 1;
	case ATOMIC_DEC:
		return old == 0 || old > value ? value : old - 1;
	case ATOMIC_CAS:
		return old == value ? other : old;
	default:
		return value;
	}
}

#define ATOMIC(T, combine)                                                                         \
	RAW static void atomic_##T(struct warp *w, const struct insn *in, uint32_t mask,           \
	                           const struct pointers *p)                                       \
	{                                                                                          \
		T *d = lanes(w, in->d[0]);                                                         \
		const T *value = lanes(w, in->s[1]);                                               \
		const T *other = in->s[2] == NONE ? value : lanes(w, in->s[2]);                    \
		for (uint32_t left = mask; left; left &= left - 1) {                               \
			int i = __builtin_ctz(left);                                               \
			T *at = (T *)p->of[p->pattern == PATTERN_ANY ? i : 0] +                    \
			        (p->pattern == PATTERN_CONSECUTIVE ? i : 0),                       \
			  old = __atomic_load_n(at, __ATOMIC_RELAXED);                             \
			while (!__atomic_compare_exchange_n(                                       \
			    at, &old, combine(in->mode, in->type, old, value[i], other[i]), false, \
			    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))                                   \
				;                                                                  \
			d[i] = old;                                                                \
		}                                                                                  \
	}

ATOMIC(uint16_t, combine_16)
ATOMIC(uint32_t, combine_32)
ATOMIC(uint64_t, combine_64)

void memory_atomic(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct pointers p;
	w->polls |= in->polling;
	find_pointers(w, in, mask, true, &p);
	if (in->size == 2)
		atomic_uint16_t(w, in, mask, &p);
	else if (in->size == 4)
		atomic_uint32_t(w, in, mask, &p);
	else
		atomic_uint64_t(w, in, mask, &p);
}
