/* SPDX-License-Identifier: MIT */
/* SHA-256, as FIPS 180-4 defines it. */
#include "tools/web/sha256.h"

#include <stdint.h>
#include <string.h>

enum { ROUNDS = 64, BLOCK = 64, WORDS = 8 };

static const uint32_t of_round[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int by)
{
	return word >> by | word << (32 - by);
}

static void sha256_add_block(uint32_t state[WORDS], const unsigned char block[BLOCK])
{
	uint32_t word[ROUNDS], s[WORDS];

	for (int i = 0; i < 16; i++)
		word[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		          (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < ROUNDS; i++) {
		uint32_t a = word[i - 15], b = word[i - 2];

		word[i] = word[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + word[i - 7] +
		          (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
	memcpy(s, state, sizeof s);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
		               ((s[4] & s[5]) ^ (~s[4] & s[6])) + of_round[i] + word[i];
		uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
		               ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, (WORDS - 1) * sizeof *s);
		s[4] += one;
		s[0] = one + two;
	}
	for (int i = 0; i < WORDS; i++)
		state[i] += s[i];
}

static void sha256_write_base64(const unsigned char *bytes, size_t length, char *text)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < length; i += 3) {
		size_t left = length - i;
		uint32_t group = (uint32_t)bytes[i] << 16 |
		                 (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
		                 (left > 2 ? bytes[i + 2] : 0);

		*text++ = digits[group >> 18];
		*text++ = digits[group >> 12 & 63];
		*text++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*text++ = left > 2 ? digits[group & 63] : '=';
	}
	*text = '\0';
}

const char *sha256_base64(const char *bytes, size_t length, char text[SHA256_TEXT])
{
	uint32_t state[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	unsigned char last[2 * BLOCK] = {0}, digest[4 * WORDS];
	size_t whole = length / BLOCK * BLOCK, rest = length - whole;
	size_t end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

	for (size_t at = 0; at < whole; at += BLOCK)
		sha256_add_block(state, (const unsigned char *)bytes + at);
	memcpy(last, bytes + whole, rest);
	last[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		last[end - 1 - (size_t)i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
	for (size_t at = 0; at < end; at += BLOCK)
		sha256_add_block(state, last + at);
	for (int i = 0; i < 4 * WORDS; i++)
		digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
	sha256_write_base64(digest, sizeof digest, text);
	return text;
}
