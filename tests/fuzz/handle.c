/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the text of a handle, which another user may have written. A text that is read as a
 * handle is written the same, and names no object that was not registered. Its description fits
 * into its place. Input: the text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry/registry.h"
#include "tests/fuzz/fuzz.h"

static void stays(struct resource *resource)
{
	(void)resource;
}

static const struct resource_type type = {.name = "allocation", .destroy = stays};
static struct resource known;
static const char known_as[] = "/job:bert/process:4711/gpu:0/ctx1/allocation/17";

/* What known_as names is there. */
static struct registry *books(void)
{
	static struct registry *registry;

	if (!registry) {
		registry = registry_create("bert", 4711, 0);
		resource_init(&known, &type);
		if (!registry || registry_add(registry, "ctx1", "17", &known) != 0)
			abort();
	}
	return registry;
}

static void expect(bool condition, const char *text)
{
	if (!condition) {
		fprintf(stderr, "handle: %s\n", text);
		abort();
	}
}

static void handle_run(const uint8_t *data, size_t size)
{
	char text[REGISTRY_HANDLE_MAX * 2], again[REGISTRY_HANDLE_MAX], message[64];
	struct resource *found = NULL;
	struct handle handle, read;
	bool is_there;

	if (size >= sizeof text)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (handle_parse(text, &handle) != 0)
		return;
	expect(strcmp(handle_format(&handle, again, sizeof again), text) == 0, text);
	expect(handle_parse(again, &read) == 0 && handle.type_hash == read.type_hash, text);
	is_there = strcmp(text, known_as) == 0;
	expect(handle_is_initialized(books(), &handle) == is_there, text);
	expect((registry_lookup_verified(books(), &handle, &type, &found, message,
	                                 sizeof message) == 0) == is_there &&
	           (found == &known) == is_there,
	       text);
	resource_release(found);
}

static size_t handle_good(uint8_t input[FUZZ_INPUT_MAX])
{
	memcpy(input, known_as, sizeof known_as - 1);
	return sizeof known_as - 1;
}

/* Characters are changed, put in and taken out. */
static size_t handle_change(uint8_t input[FUZZ_INPUT_MAX])
{
	static const char letters[] = "/:jobprcesgu0123456789x\n\xff";
	size_t length = handle_good(input);

	for (uint64_t edits = 1 + fuzz_random() % 4; edits > 0; edits--) {
		size_t at = fuzz_random() % (length + 1);
		uint8_t letter = (uint8_t)letters[fuzz_random() % (sizeof letters - 1)];

		switch (fuzz_random() % 3) {
		case 0:
			if (at < length)
				input[at] = letter;
			break;
		case 1:
			memmove(input + at + 1, input + at, length++ - at);
			input[at] = letter;
			break;
		default:
			if (at < length)
				memmove(input + at, input + at + 1, --length - at);
		}
	}
	return length;
}

const struct fuzz_target fuzz_handle = {
    .name = "handle",
    .reads = "text of handles",
    .run = handle_run,
    .good = handle_good,
    .change = handle_change,
    .rounds = 200000,
};
