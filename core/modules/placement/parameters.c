/* SPDX-License-Identifier: MIT */
/*
 * Parameters of kernels. Rules: runs inside the user's process, within its launches, now and then.
 */
#include "core/modules/placement/parameters.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/registry/object.h"

struct image;

struct known {
	CUfunction function;
	const struct parameters *parameters; /* NULL: unknown */
	const struct image *image;           /* that has them; NULL: they are the entry's own */
	UT_hash_handle hh;
};

static LOCK_OF(PARAMETERS) lock = LOCK_FREE;
static struct known *known; /* by function */

/* --- asking the driver --- */

static CUresult parameters_ask(CUfunction function, bool is_kernel, size_t index, size_t *size)
{
	size_t offset;

	return is_kernel ? driver.cuKernelGetParamInfo((CUkernel)function, index, &offset, size)
	                 : driver.cuFuncGetParamInfo(function, index, &offset, size);
}

static bool is_in_books(const struct resource_type *type, CUfunction function)
{
	struct resource *found = context_find_object(type, (uint64_t)(uintptr_t)function);

	resource_release(found);
	return found != NULL;
}

/*
 * Asks the driver for all parameters of a function, or of a kernel, as a launch takes both. Returns
 * NULL where the driver does not say, or there is no memory. Returns NULL, too, for a handle that
 * the books know as neither: a driver need not notice that it is given the wrong one of the two.
 */
static const struct parameters *parameters_ask_all(CUfunction function)
{
	bool kernel = is_in_books(&object_type_kernel, function);
	bool is_known = kernel || is_in_books(&object_type_function, function);
	struct parameters *p = is_known ? malloc(sizeof(*p)) : NULL, *more;
	size_t index, size, room = 0;
	CUresult result = CUDA_SUCCESS;

	if (!p)
		return NULL;
	p->count = 0;
	for (index = 0; index < PARAMETERS_MAX; index++) {
		result = parameters_ask(function, kernel, index, &size);
		if (result != CUDA_SUCCESS)
			break;
		if (size / sizeof(uint64_t) == 0)
			continue;
		if (p->count == room) {
			room = room ? room * 2 : 8;
			more = realloc(p, sizeof(*p) + room * sizeof(p->parameter[0]));
			if (!more)
				break;
			p = more;
		}
		p->parameter[p->count++] = (struct parameter){
		    .index = (uint16_t)index, .words = (uint16_t)(size / sizeof(uint64_t))};
	}
	if (result == CUDA_ERROR_INVALID_VALUE) /* there is none behind the last */
		return p;
	free(p);
	return NULL;
}

/* --- remembering --- */

/* Finds the entry of a function, with the lock held. Returns NULL where it is not known. */
static struct known *parameters_find(CUfunction function)
{
	struct known *k;

	HASH_FIND_PTR(known, &function, k);
	return k;
}

/* Makes a function known, with the lock held. Returns NULL where there is no memory. */
static struct known *parameters_make(CUfunction function)
{
	struct known *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->function = function;
	HASH_ADD_PTR(known, function, k);
	if (k->hh.tbl)
		return k;
	free(k);
	return NULL;
}

/*
 * Drops the parameters, unless they are an image's, with the lock held, before they are replaced.
 */
static void drop_parameters(const struct known *k)
{
	if (!k->image)
		free((void *)k->parameters);
}

bool parameters_hold(CUfunction function, bool wait, const struct parameters **parameters)
{
	struct known *k;

	if (wait)
		lock_acquire(&lock);
	else if (!lock_try(&lock))
		return false;
	*parameters = NULL;
	k = function ? parameters_find(function) : NULL;
	if (!k && function) {
		k = parameters_make(function);
		if (k)
			k->parameters = parameters_ask_all(function);
	}
	if (!k)
		return true;
	if (!k->parameters)
		log_once(LOG_INFO, "the parameters of some kernels are unknown with this driver: "
		                   "which memory those use is not known");
	*parameters = k->parameters;
	return true;
}

void parameters_release(void)
{
	lock_release(&lock);
}

/* Enters a handle, with the lock held. Replaces the handle's earlier entry. */
static void parameters_put(CUfunction function, const struct parameters *parameters,
                           const struct image *image)
{
	struct known *k = function ? parameters_find(function) : NULL;

	if (k)
		drop_parameters(k);
	else if (function)
		k = parameters_make(function);
	if (!k)
		return;
	k->parameters = parameters;
	k->image = image;
}

/* Clears the entries, with the lock held. Keeps those of other images. */
static void parameters_clear(const struct image *gone)
{
	struct known *k, *next;

	HASH_ITER (hh, known, k, next) {
		/* cppcheck-suppress uninitvar ; the macro sets it */
		if (k->image && k->image != gone)
			continue;
		drop_parameters(k);
		HASH_DEL(known, k); // NOLINT(clang-analyzer-unix.Malloc)
		free(k);
	}
}

static void parameters_forget(void)
{
	lock_acquire(&lock);
	parameters_clear(NULL);
	lock_release(&lock);
}

/* --- images --- */

struct named_kernel {
	char *name;
	struct parameters *parameters;
};

/* Kept for a module or library, and gone with it. */
struct image {
	struct resource resource;
	struct named_kernel *kernel;
	size_t count, room;
};

static bool parameters_need_images(void)
{
	static _Atomic int version;

	if (!version) {
		int asked = 0;

		driver.cuDriverGetVersion(&asked);
		version = asked ? asked : 1;
	}
	return version < 12040;
}

static void add_kernel(void *cookie, const char *name, size_t length, struct parameters *parameters)
{
	struct image *image = cookie;
	struct named_kernel kernel = {strndup(name, length), parameters};

	if (image->count == image->room) {
		size_t room = image->room ? image->room * 2 : 16;
		struct named_kernel *more = realloc(image->kernel, room * sizeof(*more));

		if (more) {
			image->kernel = more;
			image->room = room;
		}
	}
	if (!kernel.name || image->count == image->room) {
		free(kernel.name);
		free(parameters);
		return;
	}
	image->kernel[image->count++] = kernel;
}

static void image_destroy(struct resource *resource)
{
	struct image *image = (struct image *)resource;

	lock_acquire(&lock);
	parameters_clear(image);
	lock_release(&lock);
	for (size_t i = 0; i < image->count; i++) {
		free(image->kernel[i].name);
		free(image->kernel[i].parameters);
	}
	free(image->kernel);
	free(image);
}

static const struct resource_type image_type = {.name = "image", .destroy = image_destroy};

static struct resource *image_read(void *bytes)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	resource_init(&image->resource, &image_type);
	image_each_kernel(bytes, add_kernel, image);
	return &image->resource;
}

static struct resource *image_of_nothing(void *unused)
{
	(void)unused;
	return NULL;
}

static void parameters_loaded(struct resource *code, const void *image)
{
	resource_release(object_kept(code, &image_type, image_read, (void *)image));
}

static const struct parameters *find_kernel(const struct image *image, const char *name)
{
	for (size_t i = 0; image && i < image->count; i++) {
		if (strcmp(image->kernel[i].name, name) == 0)
			return image->kernel[i].parameters;
	}
	return NULL;
}

static void parameters_handed_out(CUfunction function, struct resource *code, const char *name)
{
	struct image *image =
	    code ? (struct image *)object_kept(code, &image_type, image_of_nothing, NULL) : NULL;
	const struct parameters *parameters = find_kernel(image, name);

	lock_acquire(&lock);
	parameters_put(function, parameters, parameters ? image : NULL);
	lock_release(&lock);
	if (image)
		resource_release(&image->resource);
}

/* Parameters that the driver told are asked for again: they are the entry's own. */
static void parameters_are_those_of(CUfunction function, CUfunction kernel)
{
	const struct known *k;

	lock_acquire(&lock);
	k = parameters_find(kernel);
	if (k && k->image)
		parameters_put(function, k->parameters, k->image);
	else
		parameters_put(function, NULL, NULL);
	lock_release(&lock);
}

void parameters_add_calls(struct placement_calls *calls)
{
	calls->needs_images = parameters_need_images;
	calls->loaded = parameters_loaded;
	calls->handed_out = parameters_handed_out;
	calls->are_those_of = parameters_are_those_of;
	calls->forget_functions = parameters_forget;
}
