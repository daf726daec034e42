/* SPDX-License-Identifier: MIT */
/* Container info. */
#include "tools/events/container_info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_given(const char *text)
{
	return text && *text;
}

void unique_name(const char *own, char name[REGISTRY_NAME_MAX])
{
	static _Atomic uint64_t names; /* given so far */
	uint64_t number = atomic_fetch_add_explicit(&names, 1, memory_order_relaxed) + 1;
	bool has_own = is_given(own) && name_is_valid(own);

	snprintf(name, REGISTRY_NAME_MAX, "_%" PRIu64 "%s%s", number, has_own ? "_" : "",
	         has_own ? own : "");
}

int container_info_make(const struct container_wish *wish, struct container_info *info)
{
	const char *container = is_given(wish->container) ? wish->container : "default";
	const char *name = is_given(wish->name)    ? wish->name
	                   : wish->shares_own_name ? wish->own_name
	                                           : NULL;
	bool is_named = is_given(name);
	struct container_info made = {.is_private = !is_named};

	if (!name_is_valid(container))
		return -EINVAL;
	if (is_named && (name[0] == '_' || !name_is_valid(name)))
		return -EINVAL;
	strcpy(made.container, container);
	if (is_named)
		strcpy(made.name, name);
	else
		unique_name(wish->own_name, made.name);
	*info = made;
	return 0;
}

bool container_info_end(struct registry *registry, const struct container_info *info,
                        const struct resource_type *type)
{
	return info->is_private &&
	       registry_delete(registry, info->container, type, info->name) == 0;
}
