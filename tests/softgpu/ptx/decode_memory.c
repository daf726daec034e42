/* SPDX-License-Identifier: MIT */
/* Decodes loads, stores and atomic operations. */
#include "decode.h"
#include "machine.h"

#include <string.h>

/*
 * Words that order or cache an access: every access here is done at once and in order. True for
 * those a loop that waits for another thread reads with.
 */
static bool skip_ordering(struct decoder *d)
{
	static const char *const words[] = {
	    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "cta",
	    "gpu",  "sys",      "cluster", "mmio",    "ca",      "cg",      "cs", "lu",
	    "cv",   "wb",       "wt",      "nc",      "noftz",   "unified",
	};
	bool ordered = false;
	for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
		ordered |= modifier(d, words[i]) && i >= 1 && i <= 3;
	for (uint32_t i = 1; i < d->s->part_count; i++) {
		const char *part = d->s->parts[i];
		/* The policy of a cache hint is one more operand, which nobody asks for. */
		if (!strncmp(part, "L1::", 4) || !strncmp(part, "L2::", 4))
			d->s->parts_used |= 1u << i;
	}
	return ordered;
}

static uint32_t vector_length(struct decoder *d)
{
	return modifier(d, "v2") ? 2 : modifier(d, "v4") ? 4 : modifier(d, "v8") ? 8 : 1;
}

/* The k-th register of a vector operand, or the operand itself. */
static const struct operand *element(struct decoder *d, const struct operand *o, uint32_t k,
                                     uint32_t count)
{
	if (count == 1 && o->kind != OPERAND_VECTOR)
		return o;
	if (o->kind != OPERAND_VECTOR)
		fail_invalid(d, "a vector is wanted");
	const struct operand *item = o->items;
	while (item && k--)
		item = item->next;
	if (!item)
		fail_invalid(d, "the vector is too short");
	return item;
}

static void decode_access(struct decoder *d, int store)
{
	bool polling = skip_ordering(d);
	enum space space = modifier_space(d);
	uint32_t count = vector_length(d), size;
	enum type type = modifier_type(d);
	size = type_size(type);
	if (!size)
		fail_unsupported(d);
	const struct operand *where = operand(d, store ? 0 : 1), *what = operand(d, store ? 1 : 0);
	/* Vectors of 8 are two of 4. */
	for (uint32_t first = 0; first < count; first += 4) {
		uint32_t n = count - first < 4 ? count - first : 4, slots[4] = {0};
		for (uint32_t k = 0; k < n; k++) {
			const struct operand *o = element(d, what, first + k, count);
			slots[k] = store ? source(d, o, type) : destination(d, o, type);
		}
		struct insn access = {0};
		address(d, where, space, &access);
		struct insn *in = emit(d, store ? memory_store : memory_load);
		in->s[0] = access.s[0];
		in->wide = access.wide;
		in->local_base = access.local_base;
		in->space = access.space;
		in->immediate = access.immediate + first * size;
		in->size = size;
		in->count = n;
		in->polling = polling;
		/* The address is s[0]; what is stored lies in d[], though it is read. */
		memcpy(in->d, slots, n * sizeof *slots);
		if (!store && access.space == SPACE_PARAM && (access.s[0] & 3) == BANK_CONSTANT)
			in->run = memory_load_parameter;
	}
}

static void decode_atomic(struct decoder *d, int reduction)
{
	static const struct {
		const char *name;
		enum atomic op;
	} operations[] = {
	    {"add", ATOMIC_ADD},   {"min", ATOMIC_MIN}, {"max", ATOMIC_MAX}, {"and", ATOMIC_AND},
	    {"or", ATOMIC_OR},     {"xor", ATOMIC_XOR}, {"inc", ATOMIC_INC}, {"dec", ATOMIC_DEC},
	    {"exch", ATOMIC_EXCH}, {"cas", ATOMIC_CAS},
	};
	skip_ordering(d);
	enum space space = modifier_space(d);
	int op = -1;
	for (int i = 0; i < 10; i++)
		if (modifier(d, operations[i].name))
			op = operations[i].op;
	enum type type = modifier_type(d);
	uint32_t size = type_size(type), first = reduction ? 0 : 1;
	if (op < 0 || !memory_atomic_is_supported(op, type))
		fail_unsupported(d);
	/* Between blocks, the rounding of a sum depends on who came first, as does a value read. */
	bool shared = space == SPACE_SHARED || space == SPACE_LOCAL;
	if (!shared && type_is_float(type))
		d->function->serial = true;
	uint32_t value = source(d, operand(d, first + 1), type);
	uint32_t other = op == ATOMIC_CAS ? source(d, operand(d, first + 2), type) : NONE;
	uint32_t old = reduction ? scratch(d, type) : destination(d, operand(d, 0), type);
	struct insn access = {0};
	address(d, operand(d, first), space, &access);
	struct insn *in = emit(d, memory_atomic);
	in->s[0] = access.s[0];
	in->wide = access.wide;
	in->local_base = access.local_base;
	in->space = access.space;
	in->immediate = access.immediate;
	in->d[0] = old;
	in->s[1] = value;
	in->s[2] = other;
	in->mode = op;
	in->polling = op == ATOMIC_CAS || op == ATOMIC_EXCH;
	in->ordered = !shared && !reduction;
	in->type = type;
	in->size = size;
	in->count = 1;
}

static struct insn *emit_mbarrier(struct decoder *d, handler *run, uint32_t at, enum space space)
{
	struct insn access = {0};
	address(d, operand(d, at), space, &access);
	struct insn *in = emit(d, run);
	in->s[0] = access.s[0];
	in->wide = access.wide;
	in->immediate = access.immediate;
	in->space = access.space;
	return in;
}

static void emit_mbarrier_update(struct decoder *d, enum mbarrier_op op, uint32_t at,
                                 enum space space, uint32_t state, uint32_t count)
{
	struct insn *in = emit_mbarrier(d, mbarrier_update, at, space);
	in->mode = op;
	in->d[0] = state;
	in->s[1] = count;
}

/* mbarrier.test_wait and try_wait {.parity}.b64 p, [a], state or parity{, time to wait at most} */
static void decode_mbarrier_test(struct decoder *d, enum space space)
{
	bool parity = modifier(d, "parity");
	enum type type = parity ? TYPE_U32 : TYPE_B64;
	uint32_t phase = source(d, operand(d, 2), type);
	uint32_t over = destination(d, operand(d, 0), TYPE_PRED);
	struct insn *in = emit_mbarrier(d, mbarrier_test, 1, space);
	in->d[0] = over;
	in->s[1] = phase;
	in->size = (uint8_t)type_size(type);
}

/* init, inval, expect_tx and complete_tx have [a]{, count}; arrivals state, [a]{, count}. */
static void decode_mbarrier(struct decoder *d, int unused)
{
	(void)unused;
	uint32_t one = constant(d, 1, 4), n = operand_count(d);
	skip_ordering(d);
	modifier(d, "b64");
	if (modifier(d, "pending_count")) {
		uint32_t state = source(d, operand(d, 1), TYPE_B64);
		uint32_t count = destination(d, operand(d, 0), TYPE_U32);
		struct insn *in = emit(d, mbarrier_pending);
		in->d[0] = count;
		in->s[0] = state;
		return;
	}
	enum space space = modifier_space(d);
	if (space != SPACE_SHARED && space != SPACE_GENERIC)
		fail_unsupported(d);
	if (modifier(d, "test_wait") || modifier(d, "try_wait")) {
		decode_mbarrier_test(d, space);
		return;
	}
	bool drops = modifier(d, "arrive_drop"), arrives = drops || modifier(d, "arrive");
	bool expects = modifier(d, "expect_tx");
	if (arrives) {
		uint32_t count = n > 2 ? source(d, operand(d, 2), TYPE_U32) : one;
		uint32_t state = destination(d, operand(d, 0), TYPE_B64);
		modifier(d, "noComplete");
		if (expects)
			emit_mbarrier_update(d, MBARRIER_EXPECT, 1, space, NONE, count);
		emit_mbarrier_update(d, drops ? MBARRIER_ARRIVE_DROP : MBARRIER_ARRIVE, 1, space,
		                     state, expects ? one : count);
	} else if (expects || modifier(d, "complete_tx") || modifier(d, "init")) {
		enum mbarrier_op op = expects                       ? MBARRIER_EXPECT
		                      : strstr(d->s->text, ".init") ? MBARRIER_INIT
		                                                    : MBARRIER_COMPLETE;
		uint32_t count = source(d, operand(d, 1), TYPE_U32);
		emit_mbarrier_update(d, op, 0, space, NONE, count);
	} else if (!modifier(d, "inval")) {
		fail_unsupported(d);
	}
}

/*
 * cp.async.mbarrier.arrive{.noinc} [a]: an arrival once the thread's copies are there, as they are.
 * Without .noinc the barrier expects it in addition, which leaves all counts as they were.
 */
static void decode_copy_arrival(struct decoder *d)
{
	skip_ordering(d);
	modifier(d, "b64");
	enum space space = modifier_space(d);
	if (!modifier(d, "arrive") || (space != SPACE_SHARED && space != SPACE_GENERIC))
		fail_unsupported(d);
	if (modifier(d, "noinc"))
		emit_mbarrier_update(d, MBARRIER_ARRIVE, 0, space, NONE, constant(d, 1, 4));
}

/* createpolicy: what a cache hint names means nothing here. */
static void decode_policy(struct decoder *d, int unused)
{
	(void)unused;
	d->s->parts_used = ~0u;
	uint32_t zero = constant(d, 0, 8);
	emit_alu(d, ALU_MOV, TYPE_U64, destination(d, operand(d, 0), TYPE_U64), zero, zero, NONE);
}

/* Of cp.async's operand behind the size: the bytes to be read; the rest of the copy is zeros. */
static uint32_t copy_source_size(struct decoder *d, const struct operand *o, uint32_t bytes)
{
	uint32_t slot;
	const struct symbol *symbol =
	    o->kind == OPERAND_NAME ? symbol_find_register(d->s->scope, o->name, &slot) : NULL;
	if (!symbol || symbol->type != TYPE_PRED)
		return source(d, o, TYPE_U32);
	/* A predicate: the source is ignored. */
	uint32_t size = scratch(d, TYPE_U32), ignored = predicate(d, o);
	emit_alu(d, ALU_SELP, TYPE_U32, size, constant(d, 0, 4), constant(d, bytes, 4), ignored);
	return size;
}

/* cp.async: done at once, so that waiting for it is nothing. */
static void decode_copy(struct decoder *d, int unused)
{
	(void)unused;
	if (!modifier(d, "async"))
		fail_unsupported(d);
	if (modifier(d, "commit_group") || modifier(d, "wait_group") || modifier(d, "wait_all"))
		return;
	if (modifier(d, "mbarrier")) {
		decode_copy_arrival(d);
		return;
	}
	bool has_policy = strstr(d->s->text, "L2::cache_hint");
	skip_ordering(d);
	const struct operand *size = operand(d, 2);
	uint32_t bytes = size->kind == OPERAND_INTEGER ? (uint32_t)size->bits : 0;
	uint32_t operands = operand_count(d) - has_policy;
	if (modifier_space(d) != SPACE_SHARED || !modifier(d, "global") || operands > 4 ||
	    (bytes != 4 && bytes != 8 && bytes != 16))
		fail_unsupported(d);
	uint32_t wanted = operands == 4 ? copy_source_size(d, operand(d, 3), bytes) : NONE;
	uint32_t slots[4] = {0}, count = bytes / 4;
	for (uint32_t k = 0; k < count; k++)
		slots[k] = scratch(d, TYPE_U32);
	for (int store = 0; store < 2; store++) {
		struct insn access = {0};
		address(d, operand(d, store ? 0 : 1), store ? SPACE_SHARED : SPACE_GLOBAL, &access);
		struct insn *in = emit(d, store            ? memory_store
		                          : wanted == NONE ? memory_load
		                                           : memory_load_padded);
		in->s[0] = access.s[0];
		in->s[1] = store ? NONE : wanted;
		in->wide = access.wide;
		in->space = access.space;
		in->immediate = access.immediate;
		in->size = 4;
		in->count = count;
		memcpy(in->d, slots, count * sizeof *slots);
	}
}

static void decode_nothing(struct decoder *d, int unused)
{
	(void)unused;
	d->s->parts_used = ~0u; /* prefetch, discard: hints */
}

const struct opcode opcodes_memory[] = {
    {"ld", decode_access, false},
    {"ldu", decode_access, false},
    {"st", decode_access, true},
    {"atom", decode_atomic, false},
    {"red", decode_atomic, true},
    {"prefetch", decode_nothing, 0},
    {"prefetchu", decode_nothing, 0},
    {"applypriority", decode_nothing, 0},
    {"discard", decode_nothing, 0},
    {"createpolicy", decode_policy, 0},
    {"cp", decode_copy, 0},
    {"mbarrier", decode_mbarrier, 0},
    {NULL, NULL, 0},
};
