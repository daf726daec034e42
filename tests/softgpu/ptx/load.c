/* SPDX-License-Identifier: MIT */
/* Loads and unloads modules: text in, decoded functions and initialised globals out. */
#include "alu.h"
#include "machine.h"
#include "text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reader_fail(struct reader *r, enum ptx_status status, uint32_t line, const char *format, ...)
{
	r->status = status;
	if (r->log && r->log_size) {
		int n = line ? snprintf(r->log, r->log_size, "line %u: ", line) : 0;
		va_list args;
		va_start(args, format);
		if (n >= 0 && (size_t)n < r->log_size)
			vsnprintf(r->log + n, r->log_size - (size_t)n, format, args);
		va_end(args);
	}
	longjmp(r->failed, 1);
}

static void *allocate(struct reader *r, struct arena *arena, size_t size)
{
	void *memory = arena_try(arena, size);
	if (!memory)
		reader_fail(r, PTX_NO_MEMORY, 0, "no host memory");
	return memory;
}

void *reader_scratch(struct reader *r, size_t size)
{
	return allocate(r, &r->scratch, size);
}

void *reader_keep(struct reader *r, size_t size)
{
	return allocate(r, &r->module->arena, size);
}

static void place_globals(struct reader *r)
{
	struct ptx_module *m = r->module;
	size_t align = 256;
	for (struct global *g = m->globals; g; g = g->next)
		align = g->align > align ? g->align : align;
	if (r->storage_bytes) {
		m->storage = m->memory.allocate(m->memory.cookie, r->storage_bytes, align);
		if (!m->storage)
			reader_fail(r, PTX_NO_MEMORY, 0,
			            "no device memory for %llu bytes of globals",
			            (unsigned long long)r->storage_bytes);
	}
	if (r->managed_bytes) {
		if (!m->memory.allocate_managed)
			reader_fail(r, PTX_NOT_SUPPORTED, 0, "managed variables");
		m->managed = m->memory.allocate_managed(m->memory.cookie, r->managed_bytes, align);
		if (!m->managed)
			reader_fail(r, PTX_NO_MEMORY, 0, "no memory for %llu managed bytes",
			            (unsigned long long)r->managed_bytes);
	}
	for (struct global *g = m->globals; g; g = g->next)
		g->address += g->managed ? m->managed : m->storage;
}

static uint64_t value_bits(struct reader *r, const struct initial_value *v)
{
	if (!v->name)
		return v->bits;
	const struct symbol *symbol = symbol_find(r->globals, v->name);
	uint64_t address;
	if (symbol && symbol->kind == SYMBOL_FUNCTION)
		address = GENERIC_CODE + symbol->function->index;
	else if (symbol && symbol->global)
		address = symbol->global->address;
	else
		reader_fail(r, PTX_INVALID, v->line, "'%s' has no address", v->name);
	address += v->bits;
	return v->mask ? (address & v->mask) >> __builtin_ctzll(v->mask) : address;
}

static void fill_globals(struct reader *r)
{
	struct ptx_module *m = r->module;
	uintptr_t delta = (uintptr_t)m->memory.alias_delta;
	if (m->storage)
		memset((void *)((uintptr_t)m->storage + delta), 0, r->storage_bytes);
	if (m->managed)
		memset((void *)(uintptr_t)m->managed, 0, r->managed_bytes);
	for (const struct initial_value *v = r->initial_values; v; v = v->next) {
		uint64_t bits = value_bits(r, v);
		const struct global *g = v->variable->global;
		uintptr_t at = (uintptr_t)(g->address + v->offset);
		memcpy((void *)(g->managed ? at : at + delta), &bits, v->size);
	}
}

static void index_functions(struct reader *r)
{
	struct ptx_module *m = r->module;
	m->functions = reader_keep(r, m->function_count * sizeof *m->functions);
	for (struct ptx_function *f = r->functions; f; f = f->next)
		m->functions[f->index] = f;
}

/* A function is serial when one that it may call is. */
static void spread_serial(struct ptx_module *m)
{
	bool any = false, changed = true;
	for (uint32_t i = 0; i < m->function_count; i++)
		any |= m->functions[i]->serial;
	while (any && changed) {
		changed = false;
		for (uint32_t i = 0; i < m->function_count; i++) {
			struct ptx_function *f = m->functions[i];
			for (uint32_t k = 0; !f->serial && k < f->call_count; k++) {
				/* Through a register it may be any function. */
				f->serial = !f->calls[k].callee || f->calls[k].callee->serial;
				changed |= f->serial;
			}
		}
	}
}

/* Threads that a grid may have: as many as this process may use, or as the environment says. */
static uint32_t count_threads(void)
{
	const char *wanted = getenv("SOFTGPU_THREADS");
	cpu_set_t allowed;
	long count = 1;
	if (wanted)
		count = strtol(wanted, NULL, 10);
	else if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
		count = CPU_COUNT(&allowed);
	return count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : (uint32_t)count;
}

/* False: reader_fail() was called. */
static bool load(struct reader *r)
{
	if (setjmp(r->failed))
		return false;
	parse_module(r);
	r->shared_used = r->shared_bytes;
	r->shared_bytes = (r->shared_bytes + 127) & ~127u;
	r->module->dynamic_align = r->dynamic_align > 16 ? r->dynamic_align : 16;
	index_functions(r);
	place_globals(r);
	for (struct body *body = r->bodies; body; body = body->next)
		decode_function(r, body);
	spread_serial(r->module);
	fill_globals(r);
	return true;
}

enum ptx_status ptx_module_load(const char *text, size_t length, const struct ptx_memory *memory,
                                struct ptx_module **module, char *log, size_t log_size)
{
	struct reader *r = calloc(1, sizeof *r);
	struct ptx_module *m = calloc(1, sizeof *m);
	if (log && log_size)
		log[0] = '\0';
	if (!r || !m) {
		free(r);
		free(m);
		return PTX_NO_MEMORY;
	}
	m->memory = *memory;
	m->alu = alu_select();
	m->threads = count_threads();
	r->module = m;
	r->log = log;
	r->log_size = log_size;
	r->at = text;
	r->end = text + length;
	r->line = 1;
	r->bodies_end = &r->bodies;
	r->functions_end = &r->functions;
	r->initial_values_end = &r->initial_values;
	if (load(r))
		*module = m;
	else
		ptx_module_unload(m);
	enum ptx_status status = r->status;
	arena_free(&r->scratch);
	free(r);
	return status;
}

void ptx_module_unload(struct ptx_module *module)
{
	if (!module)
		return;
	if (module->storage)
		module->memory.release(module->memory.cookie, module->storage);
	if (module->managed)
		module->memory.release(module->memory.cookie, module->managed);
	arena_free(&module->arena);
	free(module);
}

const struct ptx_function *ptx_module_function(const struct ptx_module *module, uint32_t i)
{
	for (uint32_t k = 0; k < module->function_count; k++) {
		const struct ptx_function *f = module->functions[k];
		if (f->entry && f->defined && i-- == 0)
			return f;
	}
	return NULL;
}

const struct ptx_function *ptx_module_find(const struct ptx_module *module, const char *name)
{
	for (uint32_t k = 0; k < module->function_count; k++) {
		const struct ptx_function *f = module->functions[k];
		if (f->entry && f->defined && !strcmp(f->info.name, name))
			return f;
	}
	return NULL;
}

bool ptx_module_global(const struct ptx_module *module, const char *name, uint64_t *address,
                       size_t *size)
{
	for (const struct global *g = module->globals; g; g = g->next)
		if (!strcmp(g->name, name)) {
			*address = g->address;
			*size = g->size;
			return true;
		}
	return false;
}

bool ptx_module_uses_heap(const struct ptx_module *module)
{
	return module->uses_heap;
}

const struct ptx_function_info *ptx_function_info(const struct ptx_function *function)
{
	return &function->info;
}
