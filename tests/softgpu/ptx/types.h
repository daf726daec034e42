/* SPDX-License-Identifier: MIT */
/* Types, spaces and operations by number, and the tables that map PTX words to them. */
#ifndef SOFTGPU_PTX_TYPES_H
#define SOFTGPU_PTX_TYPES_H

#include <stdbool.h>
#include <stdint.h>

enum type {
	TYPE_NONE,
	TYPE_U8,
	TYPE_U16,
	TYPE_U32,
	TYPE_U64,
	TYPE_S8,
	TYPE_S16,
	TYPE_S32,
	TYPE_S64,
	TYPE_B8,
	TYPE_B16,
	TYPE_B32,
	TYPE_B64,
	TYPE_F16,
	TYPE_BF16,
	TYPE_F16X2,
	TYPE_BF16X2,
	TYPE_U16X2,
	TYPE_S16X2,
	TYPE_F32,
	TYPE_F64,
	TYPE_PRED,
	TYPE_COUNT,
};

enum space {
	SPACE_GENERIC,
	SPACE_GLOBAL,
	SPACE_SHARED,
	SPACE_LOCAL,
	SPACE_CONST,
	SPACE_PARAM,
	SPACE_GRID, /* the words of a grid barrier; reached by generic addresses only */
	SPACE_NONE,
};

enum rounding {
	ROUND_NEAREST,
	ROUND_ZERO,
	ROUND_DOWN,
	ROUND_UP,
};

enum type type_find(const char *word); /* "f32" -> TYPE_F32, else TYPE_NONE */
enum space space_find(const char *word);
uint32_t type_size(enum type type); /* bytes; 0 for predicates */
bool type_is_signed(enum type type);
bool type_is_float(enum type type);
/* The type whose handlers serve this one: .b32 -> .u32. */
enum type type_bits(enum type type);
/* The unsigned integer type of that many bytes. */
enum type type_unsigned(uint32_t size);

#endif
