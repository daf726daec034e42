/*
 * Parameters of kernels. Rules: runs inside the user's process, within its launches, now and then.
 */
#include "core/memory/heat/parameters.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/context.h"
#include "core/memory/heat/image_kernels.h"
#include "core/registry/object.h"

struct known {
	CUfunction function;
	const struct parameters *parameters; /* NULL: nobody knows */
	const void *owner; /* whose image has them; NULL: they are the entry's own */
	UT_hash_handle hh;
};

static LOCK_OF(PARAMETERS) lock = LOCK_FREE;
static struct known *known; /* by function */

/* --- asking the driver --- */

static CUresult ask(CUfunction function, bool is_kernel, size_t index, size_t *size)
{
	size_t offset;

	return is_kernel ? driver.cuKernelGetParamInfo((CUkernel)function, index, &offset, size)
	                 : driver.cuFuncGetParamInfo(function, index, &offset, size);
}

/* A launch takes kernels, too, which the books know as such if they were handed out one by one. */
static bool is_kernel(CUfunction function)
{
	struct resource *kernel =
	    context_find_object(&object_type_kernel, (uint64_t)(uintptr_t)function);
	size_t size;

	resource_release(kernel);
	return kernel || ask(function, false, 0, &size) == CUDA_ERROR_INVALID_HANDLE;
}

/* NULL: the driver does not say, or no memory. */
static const struct parameters *ask_all(CUfunction function)
{
	bool kernel = is_kernel(function);
	struct parameters *p = malloc(sizeof(*p)), *more;
	size_t index, size, room = 0;
	CUresult result = CUDA_SUCCESS;

	if (!p)
		return NULL;
	p->count = 0;
	for (index = 0; index < PARAMETERS_MAX; index++) {
		result = ask(function, kernel, index, &size);
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

/* With the lock held; NULL: it is not known. */
static struct known *find(CUfunction function)
{
	struct known *k;

	HASH_FIND_PTR(known, &function, k);
	return k;
}

/* With the lock held; NULL: no memory. */
static struct known *make(CUfunction function)
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

/* With the lock held, before they are replaced. */
static void drop_parameters(const struct known *k)
{
	if (!k->owner)
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
	k = function ? find(function) : NULL;
	if (!k && function) {
		k = make(function);
		if (k)
			k->parameters = ask_all(function);
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

/* With the lock held. Replaces what the handle stood for. */
static void put(CUfunction function, const struct parameters *parameters, const void *owner)
{
	struct known *k = function ? find(function) : NULL;

	if (k)
		drop_parameters(k);
	else if (function)
		k = make(function);
	if (!k)
		return;
	k->parameters = parameters;
	k->owner = owner;
}

/* With the lock held. Keeps what is of other images. */
static void clear(const void *gone)
{
	struct known *k, *next;

	HASH_ITER (hh, known, k, next) {
		/* cppcheck-suppress uninitvar ; the macro sets it */
		if (k->owner && k->owner != gone)
			continue;
		drop_parameters(k);
		HASH_DEL(known, k); // NOLINT(clang-analyzer-unix.Malloc)
		free(k);
	}
}

void parameters_forget(void)
{
	lock_acquire(&lock);
	clear(NULL);
	lock_release(&lock);
}

/* --- images --- */

struct named_kernel {
	char *name;
	struct parameters *parameters;
};

struct image {
	const void *owner;
	struct named_kernel *kernel;
	size_t count, room;
	struct image *next;
};

static struct image *images; /* under the lock */

bool parameters_need_images(void)
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

/* With the lock held: nothing refers to it any more. */
static void drop_image(const void *owner)
{
	struct image **at = &images, *image;

	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	image = *at;
	if (!image)
		return;
	*at = image->next;
	for (size_t i = 0; i < image->count; i++) {
		free(image->kernel[i].name);
		free(image->kernel[i].parameters);
	}
	free(image->kernel);
	free(image);
}

void parameters_unloading(const void *owner)
{
	lock_acquire(&lock);
	clear(owner);
	drop_image(owner);
	lock_release(&lock);
}

void parameters_loaded(const void *owner, const void *image)
{
	struct image *read = calloc(1, sizeof(*read));

	if (!read)
		return;
	read->owner = owner;
	image_each_kernel(image, add_kernel, read);
	parameters_unloading(owner); /* one that ended with its context has left its handle */
	lock_acquire(&lock);
	read->next = images;
	images = read;
	lock_release(&lock);
}

/* With the lock held. */
static const struct parameters *find_kernel(const void *owner, const char *name)
{
	const struct image *image = images;

	while (image && image->owner != owner)
		image = image->next;
	for (size_t i = 0; image && i < image->count; i++) {
		if (strcmp(image->kernel[i].name, name) == 0)
			return image->kernel[i].parameters;
	}
	return NULL;
}

void parameters_handed_out(CUfunction function, const void *owner, const char *name)
{
	const struct parameters *parameters;

	lock_acquire(&lock);
	parameters = find_kernel(owner, name);
	put(function, parameters, parameters ? owner : NULL);
	lock_release(&lock);
}

/* Parameters that the driver told are asked for again: they are the entry's own. */
void parameters_are_those_of(CUfunction function, CUfunction kernel)
{
	const struct known *k;

	lock_acquire(&lock);
	k = find(kernel);
	if (k && k->owner)
		put(function, k->parameters, k->owner);
	else
		put(function, NULL, NULL);
	lock_release(&lock);
}
