/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the text of a handle, which others may have written. What is read as one is written
 * the same and names nothing that was not registered; what is said of it fits where it is put.
 * Input: the text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void stays(struct resource *resource)
{
	(void)resource;
}

static const struct resource_type type = {.name = "allocation", .destroy = stays};
static struct resource known;

/* "/job:bert/process:4711/gpu:0/ctx1/allocation/17" is there. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[REGISTRY_HANDLE_MAX * 2], again[REGISTRY_HANDLE_MAX], message[64];
	struct resource *found = NULL;
	struct handle handle, read;
	bool is_there;

	if (size >= sizeof text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (handle_parse(text, &handle) != 0)
		return 0;
	expect(strcmp(handle_format(&handle, again, sizeof again), text) == 0, text);
	expect(handle_parse(again, &read) == 0 && handle.type_hash == read.type_hash, text);
	is_there = strcmp(text, "/job:bert/process:4711/gpu:0/ctx1/allocation/17") == 0;
	expect(handle_is_initialized(books(), &handle) == is_there, text);
	expect((registry_lookup_verified(books(), &handle, &type, &found, message,
	                                 sizeof message) == 0) == is_there &&
	           (found == &known) == is_there,
	       text);
	resource_release(found);
	return 0;
}
