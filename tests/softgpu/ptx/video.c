/* SPDX-License-Identifier: MIT */
/*
 * The video instructions that compilers still emit: the same operation on each of two or four parts
 * of a word. Selectors of parts (%r1.b7654) are not among them, and not supported.
 */
#include "decode.h"
#include "machine.h"

#include <string.h>

enum video { VIDEO_ADD, VIDEO_SUB, VIDEO_DIFFERENCE, VIDEO_MIN, VIDEO_MAX };

/* How an instruction treats its parts, in insn->mode beside the operation. */
enum {
	MODE_A_SIGNED = 8,
	MODE_B_SIGNED = 16,
	MODE_SIGNED = 32,
	MODE_SATURATE = 64,
	MODE_SUM = 128
};

static int32_t part(uint32_t word, uint32_t at, uint32_t bits, bool is_signed)
{
	int32_t high = (int32_t)(word << (32 - bits - at));
	return is_signed ? high >> (32 - bits) : (int32_t)((uint32_t)high >> (32 - bits));
}

static int32_t apply(enum video op, int32_t a, int32_t b)
{
	switch (op) {
	case VIDEO_ADD:
		return a + b;
	case VIDEO_SUB:
		return a - b;
	case VIDEO_DIFFERENCE:
		return a < b ? b - a : a - b;
	case VIDEO_MIN:
		return a < b ? a : b;
	default:
		return a < b ? b : a;
	}
}

static uint32_t video_word(const struct insn *in, uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t bits = 32 / in->count, ones = (1u << bits) - 1, word = 0, sum = c;
	bool is_signed = in->mode & MODE_SIGNED;
	int32_t least = is_signed ? -(int32_t)(ones >> 1) - 1 : 0;
	int32_t most = (int32_t)(is_signed ? ones >> 1 : ones);
	for (uint32_t at = 0; at < 32; at += bits) {
		int32_t value = apply(in->mode & 7, part(a, at, bits, in->mode & MODE_A_SIGNED),
		                      part(b, at, bits, in->mode & MODE_B_SIGNED));
		if (in->mode & MODE_SATURATE)
			value = value < least ? least : value > most ? most : value;
		uint32_t kept = (uint32_t)value & ones;
		word |= kept << at;
		sum += (uint32_t)part(kept, 0, bits, is_signed);
	}
	return in->mode & MODE_SUM ? sum : word;
}

static void run_video(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t *a = lanes(w, in->s[0]), *b = lanes(w, in->s[1]), *c = lanes(w, in->s[2]);
	uint32_t *d = lanes(w, in->d[0]);
	for (; mask; mask &= mask - 1) {
		int i = __builtin_ctz(mask);
		d[i] = video_word(in, a[i], b[i], c[i]);
	}
}

/* The opcode's last letter says how many parts there are. */
static void decode_video(struct decoder *d, int op)
{
	const char *name = d->s->parts[0];
	bool is_signed = type_is_signed(modifier_type(d));
	bool a_signed = type_is_signed(modifier_type(d));
	bool b_signed = type_is_signed(modifier_type(d));
	uint32_t mode = (uint32_t)op | (is_signed ? MODE_SIGNED : 0) |
	                (a_signed ? MODE_A_SIGNED : 0) | (b_signed ? MODE_B_SIGNED : 0);
	mode |= modifier(d, "sat") ? MODE_SATURATE : 0;
	mode |= modifier(d, "add") ? MODE_SUM : 0;
	uint32_t a = source(d, operand(d, 1), TYPE_U32), b = source(d, operand(d, 2), TYPE_U32);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	uint32_t to = destination(d, operand(d, 0), TYPE_U32);
	struct insn *in = emit(d, run_video);
	in->d[0] = to;
	in->s[0] = a;
	in->s[1] = b;
	in->s[2] = c;
	in->mode = (uint8_t)mode;
	in->count = strchr(name, '4') ? 4 : 2;
}

const struct opcode opcodes_video[] = {
    {"vadd2", decode_video, VIDEO_ADD},
    {"vadd4", decode_video, VIDEO_ADD},
    {"vsub2", decode_video, VIDEO_SUB},
    {"vsub4", decode_video, VIDEO_SUB},
    {"vabsdiff2", decode_video, VIDEO_DIFFERENCE},
    {"vabsdiff4", decode_video, VIDEO_DIFFERENCE},
    {"vmin2", decode_video, VIDEO_MIN},
    {"vmin4", decode_video, VIDEO_MIN},
    {"vmax2", decode_video, VIDEO_MAX},
    {"vmax4", decode_video, VIDEO_MAX},
    {NULL, NULL, 0},
};
