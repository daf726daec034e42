/* SPDX-License-Identifier: MIT */
/* Handles: a resource's name for good, as a struct and as text. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

int handle_make(const struct registry *registry, const char *container,
                const struct resource_type *type, const char *name, struct handle *handle)
{
	container = registry_container_name(container);
	if (!container || !name || !name_is_valid(name) || !name_is_valid(type->name))
		return -EINVAL;
	struct handle made = {.process = registry->process,
	                      .gpu = registry->gpu,
	                      .type_hash = registry_type_hash(type->name)};
	strcpy(made.job, registry->job);
	strcpy(made.container, container);
	strcpy(made.type_name, type->name);
	strcpy(made.name, name);
	*handle = made;
	return 0;
}

const char *handle_format(const struct handle *handle, char *buf, size_t size)
{
	snprintf(buf, size, "/job:%s/process:%d/gpu:%d/%s/%s/%s", handle->job, handle->process,
	         handle->gpu, handle->container, handle->type_name, handle->name);
	return buf;
}

/*
 * Reads the next part of a path, behind "/" and prefix. Returns the text after it; NULL: it is not
 * there, or too long.
 */
static const char *take_part(const char *text, const char *prefix, char *part, size_t size)
{
	size_t skip = strlen(prefix);
	if (!text || text[0] != '/' || strncmp(text + 1, prefix, skip) != 0)
		return NULL;
	text += 1 + skip;
	size_t length = strcspn(text, "/");
	if (length >= size)
		return NULL;
	memcpy(part, text, length);
	part[length] = '\0';
	return text + length;
}

/* Digits only, as %d writes them. */
static const char *take_number(const char *text, const char *prefix, int *number)
{
	char digits[12];
	long value = 0;

	text = take_part(text, prefix, digits, sizeof digits);
	if (!text || !digits[0] || (digits[0] == '0' && digits[1]))
		return NULL;
	for (const char *c = digits; *c; c++) {
		if (*c < '0' || *c > '9')
			return NULL;
		value = value * 10 + (*c - '0');
	}
	if (value > INT_MAX)
		return NULL;
	*number = (int)value;
	return text;
}

int handle_parse(const char *text, struct handle *handle)
{
	struct handle read = {0};

	text = take_part(text, "job:", read.job, sizeof read.job);
	text = take_number(text, "process:", &read.process);
	text = take_number(text, "gpu:", &read.gpu);
	text = take_part(text, "", read.container, sizeof read.container);
	text = take_part(text, "", read.type_name, sizeof read.type_name);
	text = take_part(text, "", read.name, sizeof read.name);
	if (!text || *text || !name_is_valid(read.container) || !name_is_valid(read.type_name) ||
	    !name_is_valid(read.name))
		return -EINVAL;
	read.type_hash = registry_type_hash(read.type_name);
	*handle = read;
	return 0;
}

const char *registry_type_name(struct registry *registry, uint64_t hash)
{
	lock_acquire(&registry->lock);
	const struct resource_type *type = registry_find_type(registry, hash);
	lock_release(&registry->lock);
	return type ? type->name : NULL;
}

/* Finds the type that a handle names here. Returns 0, -EXDEV or -ENOENT. */
static int find_type(struct registry *registry, const struct handle *handle,
                     const struct resource_type **type)
{
	if (handle->process != registry->process || handle->gpu != registry->gpu ||
	    strcmp(handle->job, registry->job) != 0)
		return -EXDEV;
	lock_acquire(&registry->lock);
	*type = registry_find_type(registry, handle->type_hash);
	lock_release(&registry->lock);
	return *type ? 0 : -ENOENT;
}

int registry_lookup_handle(struct registry *registry, const struct handle *handle,
                           struct resource **resource)
{
	const struct resource_type *type;
	int error = find_type(registry, handle, &type);
	if (error)
		return error;
	struct resource *found = registry_lookup(registry, handle->container, type, handle->name);
	if (!found)
		return -ENOENT;
	*resource = found;
	return 0;
}

/*
 * Finds the object that stands under the handle's name instead: *other a type, or NULL. Returns
 * whether its container is there.
 */
static bool look_around(struct registry *registry, const struct handle *handle,
                        const struct resource_type **other)
{
	struct resource_name name = name_from_text(handle->name);
	const struct container *container;

	*other = NULL;
	lock_acquire(&registry->lock);
	container = registry_find_container(registry, handle->container);
	for (const struct known_type *known = registry->types; container && known && !*other;
	     known = known->next)
		if (container_find(container, known->type, &name))
			*other = known->type;
	lock_release(&registry->lock);
	return container != NULL;
}

static void say_absent(struct registry *registry, const struct handle *handle, char *message,
                       size_t size)
{
	char text[REGISTRY_HANDLE_MAX];
	const struct resource_type *other;
	bool has_container = look_around(registry, handle, &other);

	handle_format(handle, text, sizeof text);
	if (other)
		snprintf(message, size, "%s: is not there, but one of type %s is", text,
		         other->name);
	else if (has_container)
		snprintf(message, size, "%s: is not there", text);
	else
		snprintf(message, size, "%s: there is no container %s", text, handle->container);
}

int registry_lookup_verified(struct registry *registry, const struct handle *handle,
                             const struct resource_type *type, struct resource **resource,
                             char *message, size_t size)
{
	char text[REGISTRY_HANDLE_MAX];
	const char *named;
	int error;

	handle_format(handle, text, sizeof text);
	if (handle->type_hash != registry_type_hash(type->name)) {
		named = registry_type_name(registry, handle->type_hash);
		snprintf(message, size, "%s: names a resource of type %s, expected type %s", text,
		         named ? named : handle->type_name, type->name);
		return -EPROTOTYPE;
	}
	error = registry_lookup_handle(registry, handle, resource);
	if (error == -EXDEV)
		snprintf(message, size,
		         "%s: is of another device, expected /job:%s/process:%d/gpu:%d", text,
		         registry->job, registry->process, registry->gpu);
	else if (error)
		say_absent(registry, handle, message, size);
	return error;
}

int registry_delete_handle(struct registry *registry, const struct handle *handle)
{
	const struct resource_type *type;
	int error = find_type(registry, handle, &type);
	return error ? error : registry_delete(registry, handle->container, type, handle->name);
}
