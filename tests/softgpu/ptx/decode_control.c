/* SPDX-License-Identifier: MIT */
/* Decodes branches, calls, barriers, and instructions of the lanes of a warp together. */
#include "decode.h"
#include "machine.h"

#include <string.h>

static void decode_branch(struct decoder *d, int unused)
{
	(void)unused;
	modifier(d, "uni");
	if (operand(d, 0)->kind != OPERAND_NAME)
		fail_invalid(d, "a label is wanted");
	emit_control(d, CONTROL_BRANCH)->immediate = (intptr_t)d->s;
	emit_control(d, CONTROL_JOIN)->guard = NONE;
}

static void decode_branch_index(struct decoder *d, int unused)
{
	(void)unused;
	modifier(d, "uni");
	if (!modifier(d, "idx") || operand(d, 1)->kind != OPERAND_NAME)
		fail_unsupported(d);
	uint32_t index = source(d, operand(d, 0), TYPE_U32);
	struct insn *in = emit_control(d, CONTROL_BRANCH_INDEX);
	in->s[0] = index;
	in->target = d->table_count++;
	in->immediate = (intptr_t)d->s;
	emit_control(d, CONTROL_JOIN)->guard = NONE;
}

/* Parameters of a call, as offsets in the local memory of the caller. */
static void read_params(struct decoder *d, const struct operand *list, uint32_t *count,
                        uint32_t **offsets, uint32_t **sizes)
{
	uint32_t n = 0;
	for (const struct operand *o = list ? list->items : NULL; o; o = o->next)
		n++;
	*count = n;
	*offsets = reader_keep(d->r, n * sizeof **offsets);
	*sizes = reader_keep(d->r, n * sizeof **sizes);
	n = 0;
	for (const struct operand *o = list ? list->items : NULL; o; o = o->next, n++) {
		const struct symbol *symbol =
		    o->kind == OPERAND_NAME ? symbol_find(d->s->scope, o->name) : NULL;
		if (!symbol || symbol->kind != SYMBOL_VARIABLE || symbol->space != SPACE_PARAM ||
		    symbol->entry_param)
			reader_fail(d->r, PTX_NOT_SUPPORTED, d->s->line,
			            "call with arguments that are not .param variables");
		(*offsets)[n] = symbol->value;
		(*sizes)[n] = symbol->size;
	}
}

static void check_signature(struct decoder *d, struct call *call)
{
	const struct ptx_function *f = call->callee;

	/*
	 * Texts that are linked need not agree on a result. For example, numba declares one for
	 * each function, and links a function of C that returns void. The caller reads anything.
	 */
	if (!f->result_count && f->promises_result)
		call->result_count = 0;
	bool same =
	    call->argument_count == f->argument_count && call->result_count == f->result_count;
	for (uint32_t i = 0; same && i < f->argument_count; i++)
		same = call->argument_sizes[i] == f->argument_sizes[i];
	for (uint32_t i = 0; same && i < f->result_count; i++)
		same = call->result_sizes[i] == f->result_sizes[i];
	if (!same)
		fail_invalid(d, "'%s' is called with the wrong arguments", f->info.name);
}

/* Functions that hardware's runtime provides. */
static enum control builtin(struct decoder *d, const char *name, const struct call *call)
{
	if (!strcmp(name, "__assertfail") && call->argument_count >= 3)
		return CONTROL_ASSERT;
	if (!strcmp(name, "vprintf") && call->argument_count == 2 && call->result_count == 1) {
		d->function->serial = true;
		return CONTROL_PRINT;
	}
	if ((!strcmp(name, "malloc") && call->argument_count == 1 && call->result_count == 1) ||
	    (!strcmp(name, "__cuda_syscall_aligned_malloc") && call->argument_count == 2 &&
	     call->result_count == 1) ||
	    (!strcmp(name, "free") && call->argument_count == 1)) {
		d->function->serial = true;
		d->r->module->uses_heap = true;
		return call->result_count ? CONTROL_MALLOC : CONTROL_FREE;
	}
	if (!strcmp(name, "cudaGraphSetConditional") && call->argument_count == 2) {
		d->function->serial = true;
		return CONTROL_SET_CONDITIONAL;
	}
	reader_fail(d->r, PTX_NOT_SUPPORTED, d->s->line, "function %s has no body here", name);
}

static void decode_call(struct decoder *d, int unused)
{
	(void)unused;
	modifier(d, "uni");
	uint32_t i = 0;
	const struct operand *results = NULL, *arguments = NULL;
	if (operand(d, 0)->kind == OPERAND_LIST)
		results = operand(d, i++);
	const struct operand *callee = operand(d, i++);
	if (i < operand_count(d) && operand(d, i)->kind == OPERAND_LIST)
		arguments = operand(d, i);
	if (callee->kind != OPERAND_NAME)
		fail_invalid(d, "a function is wanted");
	struct call *call = &d->calls[d->call_count];
	read_params(d, results, &call->result_count, &call->results, &call->result_sizes);
	read_params(d, arguments, &call->argument_count, &call->arguments, &call->argument_sizes);
	const struct symbol *symbol = symbol_find(d->s->scope, callee->name);
	enum control control = CONTROL_CALL_INDIRECT;
	uint32_t slot = NONE;
	if (symbol && symbol->kind == SYMBOL_FUNCTION) {
		control = CONTROL_CALL;
		call->callee = symbol->function;
		if (!symbol->function->defined)
			control = builtin(d, callee->name, call);
		else if (symbol->function->entry)
			fail_unsupported(d);
		else
			check_signature(d, call);
	} else {
		slot = source(d, callee, TYPE_U64);
	}
	struct insn *in = emit_control(d, control);
	in->target = d->call_count++;
	in->s[0] = slot;
}

static void decode_simple(struct decoder *d, int control)
{
	modifier(d, "uni");
	if (control == CONTROL_RETURN && d->function->entry)
		control = CONTROL_EXIT;
	emit_control(d, control);
}

static void decode_nanosleep(struct decoder *d, int unused)
{
	(void)unused;
	enum type type = modifier_type(d);
	uint32_t slot = source(d, operand(d, 0), type);
	emit_control(d, CONTROL_SLEEP)->s[0] = slot;
	d->function->serial = true; /* helpers do not share the clock of the caller's rests */
}

static void decode_nothing(struct decoder *d, int unused)
{
	(void)unused;
	d->s->parts_used = ~0u;
}

static void decode_fence(struct decoder *d, int unused)
{
	(void)unused;
	d->s->parts_used = ~0u;
	emit(d, memory_fence);
}

/* bar.sync a{, b}; bar.arrive a, b; bar.red.op.type d, a{, b}, p; bar.warp.sync mask */
static void decode_barrier(struct decoder *d, int unused)
{
	(void)unused;
	modifier(d, "aligned");
	modifier(d, "cta");
	if (modifier(d, "warp")) {
		if (!modifier(d, "sync"))
			fail_unsupported(d);
		uint32_t mask = source(d, operand(d, 0), TYPE_U32);
		struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
		in->inner = collective_nothing;
		in->s[3] = mask;
		return;
	}
	bool reduce = modifier(d, "red"), arrive = modifier(d, "arrive");
	if (!reduce && !arrive && !modifier(d, "sync"))
		fail_unsupported(d);
	uint32_t at = reduce ? 1 : 0, n = operand_count(d) - at - reduce;
	uint32_t id = source(d, operand(d, at), TYPE_U32);
	uint32_t threads = n > 1 ? source(d, operand(d, at + 1), TYPE_U32) : NONE;
	uint32_t to = NONE, p = NONE, mode = BARRIER_PLAIN;
	if (reduce) {
		mode = modifier(d, "popc")  ? BARRIER_POPC
		       : modifier(d, "and") ? BARRIER_AND
		       : modifier(d, "or")  ? BARRIER_OR
		                            : BARRIER_PLAIN;
		p = predicate(d, operand(d, at + n));
		enum type type = modifier_type(d);
		if (mode == BARRIER_PLAIN)
			fail_unsupported(d);
		if (mode == BARRIER_POPC ? type_size(type) != 4 : type != TYPE_PRED)
			fail_invalid(d, "the result has the wrong type");
		to = destination(d, operand(d, 0), type);
	}
	struct insn *in = emit_control(d, arrive ? CONTROL_BARRIER_ARRIVE : CONTROL_BARRIER);
	in->s[0] = id;
	in->s[1] = threads;
	in->s[2] = p;
	in->d[0] = to;
	in->mode = mode;
}

static void decode_shuffle(struct decoder *d, int unused)
{
	static const char *const kinds[] = {"up", "down", "bfly", "idx"};
	(void)unused;
	int kind = -1;
	for (int i = 0; i < 4; i++)
		if (modifier(d, kinds[i]))
			kind = i;
	if (kind < 0)
		fail_unsupported(d);
	bool sync = modifier(d, "sync");
	enum type type = modifier_type(d);
	const struct operand *to = operand(d, 0);
	if (to->kind != OPERAND_NAME || type_size(type) != 4)
		fail_invalid(d, "a register of 32 bits is wanted");
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), TYPE_U32);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	uint32_t mask = sync ? source(d, operand(d, 4), TYPE_U32) : NONE;
	uint32_t result = destination_named(d, to->name, type);
	uint32_t p = to->pair ? destination_named(d, to->pair, TYPE_PRED) : NONE;
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = collective_shuffle;
	in->mode = kind;
	in->d[0] = result;
	in->d[1] = p;
	in->s[0] = a;
	in->s[1] = b;
	in->s[2] = c;
	in->s[3] = mask;
}

static void decode_vote(struct decoder *d, int unused)
{
	static const char *const kinds[] = {"all", "any", "uni", "ballot"};
	(void)unused;
	int kind = -1;
	for (int i = 0; i < 4; i++)
		if (modifier(d, kinds[i]))
			kind = i;
	if (kind < 0)
		fail_unsupported(d);
	bool sync = modifier(d, "sync");
	enum type type = modifier_type(d);
	if (!strcmp(kinds[kind], "ballot") ? type_size(type) != 4 : type != TYPE_PRED)
		fail_invalid(d, "the result has the wrong type");
	uint32_t p = predicate(d, operand(d, 1));
	uint32_t mask = sync ? source(d, operand(d, 2), TYPE_U32) : NONE;
	uint32_t to = destination(d, operand(d, 0), type);
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = collective_vote;
	in->mode = kind;
	in->d[0] = to;
	in->s[0] = p;
	in->s[3] = mask;
}

static void decode_match(struct decoder *d, int unused)
{
	(void)unused;
	bool all = modifier(d, "all");
	if (all == modifier(d, "any") || !modifier(d, "sync"))
		fail_unsupported(d);
	enum type type = modifier_type(d);
	const struct operand *to = operand(d, 0);
	if (to->kind != OPERAND_NAME || type_size(type) < 4)
		fail_invalid(d, "a register of 32 or 64 bits is wanted");
	uint32_t a = source(d, operand(d, 1), type), mask = source(d, operand(d, 2), TYPE_U32);
	uint32_t result = destination_named(d, to->name, TYPE_B32);
	uint32_t p = to->pair ? destination_named(d, to->pair, TYPE_PRED) : NONE;
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = collective_match;
	in->mode = all;
	in->size = type_size(type);
	in->d[0] = result;
	in->d[1] = p;
	in->s[0] = a;
	in->s[3] = mask;
}

static void decode_redux(struct decoder *d, int unused)
{
	static const struct {
		const char *name;
		enum atomic op;
	} operations[] = {
	    {"add", ATOMIC_ADD}, {"min", ATOMIC_MIN}, {"max", ATOMIC_MAX},
	    {"and", ATOMIC_AND}, {"or", ATOMIC_OR},   {"xor", ATOMIC_XOR},
	};
	(void)unused;
	int op = -1;
	for (int i = 0; i < 6; i++)
		if (modifier(d, operations[i].name))
			op = operations[i].op;
	if (op < 0 || !modifier(d, "sync"))
		fail_unsupported(d);
	enum type type = modifier_type(d);
	if (type_size(type) != 4 || type_is_float(type))
		fail_unsupported(d);
	uint32_t a = source(d, operand(d, 1), type), mask = source(d, operand(d, 2), TYPE_U32);
	uint32_t to = destination(d, operand(d, 0), type);
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = collective_reduce;
	in->mode = op;
	in->type = type;
	in->d[0] = to;
	in->s[0] = a;
	in->s[3] = mask;
}

/* elect.sync d|p, mask: the lowest lane is chosen; all learn its number, it alone gets true. */
static void decode_elect(struct decoder *d, int unused)
{
	(void)unused;
	const struct operand *to = operand(d, 0);
	if (!modifier(d, "sync") || to->kind != OPERAND_NAME || !to->pair)
		fail_unsupported(d);
	uint32_t mask = source(d, operand(d, 1), TYPE_U32);
	uint32_t lane = destination_named(d, to->name, TYPE_B32);
	uint32_t p = destination_named(d, to->pair, TYPE_PRED);
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = collective_elect;
	in->d[0] = lane;
	in->d[1] = p;
	in->s[3] = mask;
}

static void decode_activemask(struct decoder *d, int unused)
{
	(void)unused;
	modifier_type(d);
	emit(d, read_active_mask)->d[0] = destination(d, operand(d, 0), TYPE_B32);
}

const struct opcode opcodes_control[] = {
    {"bra", decode_branch, 0},
    {"brx", decode_branch_index, 0},
    {"call", decode_call, 0},
    {"ret", decode_simple, CONTROL_RETURN},
    {"exit", decode_simple, CONTROL_EXIT},
    {"trap", decode_simple, CONTROL_TRAP},
    {"brkpt", decode_nothing, 0},
    {"nanosleep", decode_nanosleep, 0},
    {"membar", decode_fence, 0},
    {"fence", decode_fence, 0},
    {"pmevent", decode_nothing, 0},
    {"griddepcontrol", decode_nothing, 0},
    {"bar", decode_barrier, 0},
    {"barrier", decode_barrier, 0},
    {"shfl", decode_shuffle, 0},
    {"vote", decode_vote, 0},
    {"match", decode_match, 0},
    {"redux", decode_redux, 0},
    {"activemask", decode_activemask, 0},
    {"elect", decode_elect, 0},
    {NULL, NULL, 0},
};
