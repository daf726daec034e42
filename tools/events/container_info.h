/* SPDX-License-Identifier: MIT */
/*
 * Container info: the container and the name of a new resource, from the request.
 *
 * container  given, else the default one
 * name       given, else the maker's own if it says so. A name that is shared gives each request
 *            for it the same resource. Else the name is a unique "_N_OWN", for example "_17_pool":
 *            the resource is its maker's alone, which takes it out again
 *
 * Names of resources that begin with "_" are the registry's to give. Thread-safe.
 */
#ifndef TOOLS_CONTAINER_INFO_H
#define TOOLS_CONTAINER_INFO_H

#include "core/registry/registry.h"

struct container_wish {
	const char *container; /* NULL or "": the default one */
	const char *name;      /* NULL or "": not given */
	const char *own_name;  /* of the maker, NULL: has none */
	bool shares_own_name;  /* it is used where none is given */
};

struct container_info {
	char container[REGISTRY_NAME_MAX];
	char name[REGISTRY_NAME_MAX];
	bool is_private;
};

/* Decides container and name. Returns 0, or -EINVAL: a name cannot be used; *info is as it was. */
int container_info_make(const struct container_wish *wish, struct container_info *info);
/*
 * Ends the maker's use: a private resource is deleted, a shared one stays. Returns whether it was
 * deleted.
 */
bool container_info_end(struct registry *registry, const struct container_info *info,
                        const struct resource_type *type);

/*
 * Writes "_N", or "_N_OWN" as far as it fits; no two are alike in a process. own NULL or not fit
 * for a name: left out.
 */
void unique_name(const char *own, char name[REGISTRY_NAME_MAX]);

#endif
