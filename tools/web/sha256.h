/* SPDX-License-Identifier: MIT */
/* SHA-256 in base64, as a Content-Security-Policy names a script or a style. */
#ifndef SPILLWAY_SHA256_H
#define SPILLWAY_SHA256_H

#include <stddef.h>

enum { SHA256_TEXT = 45 };

/* Writes the digest of the bytes. Returns text. */
const char *sha256_base64(const char *bytes, size_t length, char text[SHA256_TEXT]);

#endif
