/* SPDX-License-Identifier: MIT */
/* Types and spaces: their words and sizes. */
#include "types.h"

#include <string.h>

static const struct {
	const char *word;
	uint8_t size;
	bool is_signed, is_float;
	uint8_t bits;
} types[TYPE_COUNT] = {
    [TYPE_NONE] = {"", 0, false, false, TYPE_NONE},
    [TYPE_U8] = {"u8", 1, false, false, TYPE_U8},
    [TYPE_U16] = {"u16", 2, false, false, TYPE_U16},
    [TYPE_U32] = {"u32", 4, false, false, TYPE_U32},
    [TYPE_U64] = {"u64", 8, false, false, TYPE_U64},
    [TYPE_S8] = {"s8", 1, true, false, TYPE_S8},
    [TYPE_S16] = {"s16", 2, true, false, TYPE_S16},
    [TYPE_S32] = {"s32", 4, true, false, TYPE_S32},
    [TYPE_S64] = {"s64", 8, true, false, TYPE_S64},
    [TYPE_B8] = {"b8", 1, false, false, TYPE_U8},
    [TYPE_B16] = {"b16", 2, false, false, TYPE_U16},
    [TYPE_B32] = {"b32", 4, false, false, TYPE_U32},
    [TYPE_B64] = {"b64", 8, false, false, TYPE_U64},
    [TYPE_F16] = {"f16", 2, false, true, TYPE_F16},
    [TYPE_BF16] = {"bf16", 2, false, true, TYPE_BF16},
    [TYPE_F16X2] = {"f16x2", 4, false, true, TYPE_F16X2},
    [TYPE_BF16X2] = {"bf16x2", 4, false, true, TYPE_BF16X2},
    [TYPE_U16X2] = {"u16x2", 4, false, false, TYPE_U16X2},
    [TYPE_S16X2] = {"s16x2", 4, true, false, TYPE_S16X2},
    [TYPE_F32] = {"f32", 4, false, true, TYPE_F32},
    [TYPE_F64] = {"f64", 8, false, true, TYPE_F64},
    [TYPE_PRED] = {"pred", 0, false, false, TYPE_PRED},
};

enum type type_find(const char *word)
{
	for (int i = 1; i < TYPE_COUNT; i++)
		if (!strcmp(types[i].word, word))
			return i;
	return TYPE_NONE;
}

enum space space_find(const char *word)
{
	static const struct {
		const char *word;
		enum space space;
	} spaces[] = {
	    {"global", SPACE_GLOBAL},      {"shared", SPACE_SHARED},
	    {"shared::cta", SPACE_SHARED}, {"shared::cluster", SPACE_SHARED},
	    {"local", SPACE_LOCAL},        {"const", SPACE_CONST},
	    {"param", SPACE_PARAM},        {"param::entry", SPACE_PARAM},
	    {"param::func", SPACE_PARAM},
	};
	for (unsigned i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (!strcmp(spaces[i].word, word))
			return spaces[i].space;
	return SPACE_NONE;
}

uint32_t type_size(enum type type)
{
	return types[type].size;
}

bool type_is_signed(enum type type)
{
	return types[type].is_signed;
}

bool type_is_float(enum type type)
{
	return types[type].is_float;
}

enum type type_bits(enum type type)
{
	return types[type].bits;
}

enum type type_unsigned(uint32_t size)
{
	return size == 1 ? TYPE_U8 : size == 2 ? TYPE_U16 : size == 4 ? TYPE_U32 : TYPE_U64;
}
