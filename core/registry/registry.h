/* SPDX-License-Identifier: MIT */
/*
 * The registry: every CUDA resource the process holds, by name. One per device.
 *
 * resource   reference-counted; has a type, a name, memory_used(), describe(), destroy()
 * container  a named group of resources; one per CUDA context and per step of the program, and a
 *            default one
 * handle     names a resource for good: device, container, type, name; has a text form
 *            "/job:bert/process:4711/gpu:0/ctx1/allocation/00007f1234000000"
 *
 * container -> (type hash, name) -> resource. A resource is born with one reference, which create()
 * gives to the registry. lookup and lookup_or_create add one for the caller, and deleting drops the
 * registry's. For example, a resource that was looked up once and deleted has one reference left,
 * the caller's. destroy() never calls the driver on the application's objects. All functions are
 * thread-safe; destroy() runs outside the registry's lock.
 *
 * Types are keyed by pointer inside a process; the hash of their name serves handles. Creations in
 * flight in lookup_or_create are a list on their callers' stacks; create() runs unlocked and may
 * create other resources.
 */
#ifndef SPILLWAY_REGISTRY_H
#define SPILLWAY_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/resource.h"

struct registry;

struct registry *registry_create(const char *job, int process, int gpu); /* NULL: no memory */
void registry_destroy(struct registry *registry);

/*
 * Adds a resource, and takes over the caller's reference on success. container NULL or "": the
 * default one ("default"). Returns 0, -EEXIST, -EINVAL (a name empty, too long, with '/' or a
 * control character; a type with a name that means another type already), -ENOMEM.
 */
int registry_add(struct registry *registry, const char *container, const char *name,
                 struct resource *resource);
/* Looks a resource up. Returns NULL when it is absent; else it has a reference for the caller. */
struct resource *registry_lookup(struct registry *registry, const char *container,
                                 const struct resource_type *type, const char *name);
/*
 * Looks a resource up, or makes it; with a reference for the caller. create() runs outside the
 * registry's lock, once under races. Other threads that want the same wait for it. When it fails
 * they try themselves. Returns NULL when it fails, answers another type (which is logged), or asks
 * for the very resource it is to make.
 */
struct resource *registry_lookup_or_create(struct registry *registry, const char *container,
                                           const struct resource_type *type, const char *name,
                                           struct resource *(*create)(void *cookie), void *cookie);
/* Deletes a resource. Returns 0 or -ENOENT. */
int registry_delete(struct registry *registry, const char *container,
                    const struct resource_type *type, const char *name);
/* Deletes a whole container (a context was destroyed). Returns the number of resources dropped. */
size_t registry_cleanup(struct registry *registry, const char *container);
size_t registry_clear(struct registry *registry);

/*
 * Adds a CUDA object. Such objects are named by their address: 16 hexadecimal digits, lower case.
 * The calls above understand such a name as well; these are quicker and need no text. Same rules
 * and answers.
 */
int registry_add_object(struct registry *registry, const char *container, uint64_t object,
                        struct resource *resource);
struct resource *registry_lookup_object(struct registry *registry, const char *container,
                                        const struct resource_type *type, uint64_t object);
int registry_delete_object(struct registry *registry, const char *container,
                           const struct resource_type *type, uint64_t object);
/* Adds like registry_add_object(), but deletes the resource that the address stood for before. */
int registry_replace_object(struct registry *registry, const char *container, uint64_t object,
                            struct resource *resource);
/*
 * Finds an object in whichever container it is; in this one, if there are several, and rather one
 * that is not leaving. It has a reference for the caller.
 */
struct resource *registry_find_object(struct registry *registry, const char *preferred,
                                      const struct resource_type *type, uint64_t object);
/* Finds an object in any container and takes it out: the registry's reference is the caller's. */
struct resource *registry_take_object(struct registry *registry, const struct resource_type *type,
                                      uint64_t object);
/*
 * Leaving: while the driver is asked to destroy an object, and may refuse, the object is found,
 * listed and charged as before. The driver may give its address to the next object of another
 * thread before it has answered. An object that is then entered under the address supersedes the
 * leaving one, look-ups by address prefer it, and registry_left() takes out the leaving one alone.
 */
struct leaving {
	struct registry *registry;
	struct resource *resource; /* NULL: it was not there */
	uint64_t object, entry;
	size_t place; /* of its entry, which may have been moved since */
};
/*
 * Begins leaving, before the driver is asked. Takes over the caller's reference; found may be NULL.
 */
struct leaving registry_leave(struct registry *registry, uint64_t object, struct resource *found);
/*
 * Finds it as registry_find_object() does and begins its leaving, in one. For an object that is
 * leaving already nothing begins. holds: with a reference for the caller. Else the resource is not
 * the caller's to touch. Returns whether it was found.
 */
bool registry_leave_object(struct registry *registry, const char *preferred,
                           const struct resource_type *type, uint64_t object, bool holds,
                           struct leaving *leaving);
/*
 * Ends leaving, after the driver's answer. gone: it agreed, else all is as it was. Returns whether
 * this call took the object out of the books; not where another thread or a new object of that
 * address was quicker. A reference stays the caller's, to be released.
 */
bool registry_left(const struct leaving *leaving, bool gone);
/*
 * Returns the number of the last entry, to be read before the driver is asked. A type that leaves
 * unmarked, which is half the price, leaves by it. When the driver has agreed,
 * registry_take_before() takes out the object that stood under the address then. The registry's
 * reference is the caller's. Returns NULL if there was none.
 */
uint64_t registry_entries(struct registry *registry);
struct resource *registry_take_before(struct registry *registry, const struct resource_type *type,
                                      uint64_t object, uint64_t entries);
/*
 * Lists the addresses of a container's resources that have a chain, at most n. Returns how many
 * there are.
 */
size_t registry_list_chained(struct registry *registry, const char *container, uint64_t *objects,
                             size_t n);
/* Deletes this very resource; 0 or -ENOENT, also when the address stands for another one by now. */
int registry_delete_resource(struct registry *registry, uint64_t object, struct resource *resource);

struct handle {
	char job[64];
	int process;
	int gpu;
	char container[REGISTRY_NAME_MAX];
	char type_name[REGISTRY_NAME_MAX];
	char name[REGISTRY_NAME_MAX];
	uint64_t type_hash;
};

int handle_make(const struct registry *registry, const char *container,
                const struct resource_type *type, const char *name, struct handle *handle);
const char *handle_format(const struct handle *handle, char *buf, size_t size);
int handle_parse(const char *text, struct handle *handle); /* 0 or -EINVAL */
/*
 * Finds the resource of a handle if it exists now; nothing is created. Returns 0 or a negative
 * errno; -EXDEV: a handle of another device.
 */
int registry_lookup_handle(struct registry *registry, const struct handle *handle,
                           struct resource **resource);
/*
 * Finds the resource that a handle names, for a caller that expects this type. Returns 0; -EXDEV:
 * of another device; -EPROTOTYPE: of another type; -ENOENT: it is not there. Then message has the
 * reason, for people: the object that the handle names and the one that is there.
 */
int registry_lookup_verified(struct registry *registry, const struct handle *handle,
                             const struct resource_type *type, struct resource **resource,
                             char *message, size_t size);
int registry_delete_handle(struct registry *registry, const struct handle *handle);
static inline bool handle_is_initialized(struct registry *registry, const struct handle *handle)
{
	struct resource *found;
	if (registry_lookup_handle(registry, handle, &found) != 0)
		return false;
	resource_release(found);
	return true;
}
/* Returns the name of a type that was registered here; NULL: none of this hash was. */
const char *registry_type_name(struct registry *registry, uint64_t hash);

/*
 * Walks a copy of the entries at the time of the call; each() holds no lock. Returns the number of
 * entries, 0 also when there is no memory for the copy.
 */
struct registry_entry {
	const char *container, *name;
	struct resource *resource;
};
size_t registry_walk(struct registry *registry,
                     void (*each)(void *cookie, const struct registry_entry *entry), void *cookie);
struct registry_listing {
	char container[REGISTRY_NAME_MAX], name[REGISTRY_NAME_MAX];
	const struct resource_type *type;
	uint64_t bytes, born_ns;
};
/*
 * Lists entries, `most` at most, without taking a reference: the caller never destroys anything.
 * memory_used() runs under the registry's lock. Returns how many there are.
 */
size_t registry_list(struct registry *registry, struct registry_listing *listing, size_t most);
/* Counts the live resources of a type, NULL: of all; registry_memory() sums up their memory. */
size_t registry_count(struct registry *registry, const struct resource_type *type);
/*
 * Keeps the number of a type's resources in the caller's word from here on, for readers without the
 * lock. Returns 0, -EINVAL or -ENOMEM, as registry_add().
 */
int registry_count_in(struct registry *registry, const struct resource_type *type,
                      _Atomic uint64_t *word);
uint64_t registry_memory(struct registry *registry, const struct resource_type *type);

/*
 * Returns whether a name is valid: 1 to REGISTRY_NAME_MAX - 1 characters, none of them '/' or a
 * control character.
 */
bool name_is_valid(const char *text);

#endif
