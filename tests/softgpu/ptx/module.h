/* SPDX-License-Identifier: MIT */
/*
 * A decoded module.
 *
 * lane array  the values of one register in the 32 lanes of a warp, side by side
 * slot        where a lane array is: byte offset | bank; see enum bank
 * predicate   one 32-bit word, a bit per lane; its slot names that word
 * instruction one step of the executor; a PTX statement becomes one or a few of them
 */
#ifndef SOFTGPU_PTX_MODULE_H
#define SOFTGPU_PTX_MODULE_H

#include <stdarg.h>

#include "arena.h"
#include "ptx.h"
#include "types.h"

enum { LANES = 32 };
#define ALL_LANES 0xffffffffu
#define NONE      0xffffffffu

/* The two low bits of a slot. */
enum bank {
	BANK_FRAME,    /* registers of the running call */
	BANK_CONSTANT, /* immediates of the function, shared by all warps */
	BANK_SPECIAL,  /* %tid and the like, one set per warp */
	BANK_COUNT,
};

/* Lane arrays of the special bank, in units of SPECIAL_STRIDE bytes. */
enum special {
	SPECIAL_TID_X,
	SPECIAL_TID_Y,
	SPECIAL_TID_Z,
	SPECIAL_NTID_X,
	SPECIAL_NTID_Y,
	SPECIAL_NTID_Z,
	SPECIAL_CTAID_X,
	SPECIAL_CTAID_Y,
	SPECIAL_CTAID_Z,
	SPECIAL_NCTAID_X,
	SPECIAL_NCTAID_Y,
	SPECIAL_NCTAID_Z,
	SPECIAL_LANEID,
	SPECIAL_WARPID,
	SPECIAL_NWARPID,
	SPECIAL_LANEMASK_EQ,
	SPECIAL_LANEMASK_LT,
	SPECIAL_LANEMASK_LE,
	SPECIAL_LANEMASK_GT,
	SPECIAL_LANEMASK_GE,
	SPECIAL_ZERO, /* %smid, %gridid and others that are always 0 here */
	SPECIAL_ONE,
	SPECIAL_DYNAMIC_SHARED, /* where it starts */
	SPECIAL_DYNAMIC_SIZE,
	SPECIAL_TOTAL_SHARED,
	SPECIAL_RESERVED_SHARED, /* where the system's own starts, behind the block's */
	SPECIAL_GRID_LOW, /* %envreg2, %envreg1: the generic address of the grid's barrier word */
	SPECIAL_GRID_HIGH,
	SPECIAL_COUNT,
};
enum { SPECIAL_STRIDE = 4 * LANES };

enum control {
	CONTROL_NONE, /* run() does it all */
	CONTROL_BRANCH,
	CONTROL_BRANCH_INDEX,
	CONTROL_JOIN,
	CONTROL_CALL,
	CONTROL_CALL_INDIRECT,
	CONTROL_RETURN,
	CONTROL_EXIT,
	CONTROL_BARRIER,
	CONTROL_BARRIER_ARRIVE,
	CONTROL_COLLECTIVE, /* run inner() once all lanes named in s[3] are here */
	CONTROL_SLEEP,      /* for s[0] nanoseconds; a turn ends here in any case */
	CONTROL_TRAP,
	CONTROL_ASSERT,
	CONTROL_PRINT,
	CONTROL_MALLOC,
	CONTROL_FREE,
	CONTROL_SET_CONDITIONAL,
};

/* Generic addresses of what is not global carry the space in the top byte. */
#define GENERIC_SHIFT  56
#define GENERIC_SHARED ((uint64_t)1 << GENERIC_SHIFT)
#define GENERIC_LOCAL  ((uint64_t)2 << GENERIC_SHIFT)
#define GENERIC_PARAM  ((uint64_t)3 << GENERIC_SHIFT)
#define GENERIC_GRID   ((uint64_t)4 << GENERIC_SHIFT)
/* Addresses of functions, as `call` through a register sees them: this plus an index. */
#define GENERIC_CODE ((uint64_t)5 << GENERIC_SHIFT)

struct warp;
struct insn;
typedef void handler(struct warp *warp, const struct insn *insn, uint32_t mask);

struct insn {
	handler *run;   /* NULL: see control */
	handler *inner; /* what run wraps, or what a collective runs */
	uint32_t d[4];  /* slots written */
	uint32_t s[4];  /* slots read */
	int64_t immediate;
	uint32_t target; /* instruction index, or index into the function's calls or tables */
	uint32_t join;   /* of a branch: the instruction where its paths meet again, or NONE */
	uint32_t guard;  /* predicate slot or NONE */
	uint32_t line;
	bool guard_negated;
	uint8_t control;
	uint8_t space;
	uint8_t size;  /* bytes of one element in memory */
	uint8_t count; /* elements of a vector access */
	uint8_t type;
	uint8_t mode; /* rounding, atomic operation, shuffle kind, ... */
	bool polling; /* reads what another thread may be about to write: spin loops do */
	bool ordered; /* who comes first decides the result: an atomic operation between blocks */
	bool wide;    /* the address register has 64 bits */
	bool local_base; /* the address is relative to the frame's local memory */
};

struct call {
	const struct ptx_function *callee; /* NULL: through a register */
	uint32_t argument_count, result_count;
	uint32_t *arguments, *results; /* local offsets in the caller */
	uint32_t *argument_sizes, *result_sizes;
};

struct table {
	uint32_t count;
	uint32_t *targets;
};

struct ptx_function {
	struct ptx_function_info info;
	struct ptx_module *module;
	struct ptx_function *next;
	bool entry;
	bool defined;
	bool promises_result;   /* a declaration says that it gives one */
	uint32_t index;         /* in module->functions */
	uint32_t max_registers; /* .maxnreg; 0: none */
	bool serial; /* its results depend on the order of blocks: one thread runs them all */

	struct insn *code;
	uint32_t code_count;
	struct call *calls;
	uint32_t call_count;
	struct table *tables;

	uint8_t *constants;
	uint32_t frame_bytes; /* lane arrays and predicates */
	uint32_t local_bytes; /* variables, parameters and results of device functions */
	/* Local offsets of formal parameters and results of a device function. */
	uint32_t argument_count, result_count;
	uint32_t *arguments, *results;
	uint32_t *argument_sizes, *result_sizes;
};

struct global {
	struct global *next;
	const char *name;
	uint64_t address;
	size_t size;
	size_t align;
	bool constant, managed;
};

struct ptx_module {
	struct arena arena;
	struct ptx_memory memory;
	const struct alu_set *alu; /* that the code was decoded for */
	struct global *globals;
	struct ptx_function **functions; /* all, device functions too */
	uint32_t function_count;
	uint64_t storage; /* of all globals: one piece of device memory */
	uint64_t managed; /* of the .managed ones */
	uint32_t constant_bytes;
	uint32_t version, target;
	uint32_t dynamic_align; /* of extern shared memory */
	uint32_t threads;       /* of the host, for one grid */
	bool uses_reserved_shared;
	bool uses_heap;
};

#endif
