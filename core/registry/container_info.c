/* SPDX-License-Identifier: MIT */
/* Container info. Rules: runs inside the user's process; takes no lock of its own. */
#include "core/registry/container_info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

static bool is_given(const char *text)
{
	return text && *text;
}

void registry_unique_name(struct registry *registry, const char *own, char name[REGISTRY_NAME_MAX])
{
	uint64_t number =
	    atomic_fetch_add_explicit(&registry->unique_names, 1, memory_order_relaxed) + 1;
	bool has_own = is_given(own) && name_is_valid(own);

	snprintf(name, REGISTRY_NAME_MAX, "_%" PRIu64 "%s%s", number, has_own ? "_" : "",
	         has_own ? own : "");
}

int container_info_make(struct registry *registry, const struct container_wish *wish,
                        struct container_info *info)
{
	const char *container = registry_container_name(wish->container);
	const char *name = is_given(wish->name)    ? wish->name
	                   : wish->shares_own_name ? wish->own_name
	                                           : NULL;
	bool is_named = is_given(name);
	struct container_info made = {.is_private = !is_named};

	if (!container)
		return -EINVAL;
	if (is_named && (name[0] == '_' || !name_is_valid(name)))
		return -EINVAL;
	strcpy(made.container, container);
	if (is_named)
		strcpy(made.name, name);
	else
		registry_unique_name(registry, wish->own_name, made.name);
	*info = made;
	return 0;
}

bool container_info_end(struct registry *registry, const struct container_info *info,
                        const struct resource_type *type)
{
	return info->is_private &&
	       registry_delete(registry, info->container, type, info->name) == 0;
}
