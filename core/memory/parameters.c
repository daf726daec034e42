/* Parameters of kernels. Rules: runs inside the user's process, within its launches, now and then. */
#include "core/memory/parameters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/context.h"
#include "core/registry/object.h"

enum { PARAMETERS_MAX = 4096 }; /* 32,764 bytes are the most that a kernel takes */

/* One function; open addressing. */
struct known {
	CUfunction function;           /* NULL: free */
	struct parameters *parameters; /* NULL: nobody knows */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known;
static size_t capacity, count; /* a power of two; at most half of it is used */

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
static struct parameters *ask_all(CUfunction function)
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

static struct known *place_of(CUfunction function)
{
	size_t i = ((uintptr_t)function >> 3) * 0x9e3779b97f4a7c15u >> 32;

	for (;; i++) {
		struct known *k = &known[i & (capacity - 1)];

		if (!k->function || k->function == function)
			return k;
	}
}

/* Room for one more. */
static bool grow(void)
{
	struct known *old = known;
	size_t old_capacity = capacity, wanted = capacity ? capacity * 2 : 64;

	if (count < capacity / 2)
		return true;
	known = calloc(wanted, sizeof(*known));
	if (!known) {
		known = old;
		return false;
	}
	capacity = wanted;
	for (size_t i = 0; i < old_capacity; i++) {
		if (old[i].function)
			*place_of(old[i].function) = old[i];
	}
	free(old);
	return true;
}

bool parameters_hold(CUfunction function, bool wait, const struct parameters **parameters)
{
	struct known *k;

	if (wait)
		pthread_mutex_lock(&lock);
	else if (pthread_mutex_trylock(&lock) != 0)
		return false;
	*parameters = NULL;
	if (!function || !grow())
		return true;
	k = place_of(function);
	if (!k->function) {
		k->function = function;
		k->parameters = ask_all(function);
		count++;
		if (!k->parameters)
			log_once(LOG_INFO, "parameters of kernels are unknown with this driver: "
			                   "which memory is used is known by copies alone");
	}
	*parameters = k->parameters;
	return true;
}

void parameters_release(void)
{
	pthread_mutex_unlock(&lock);
}

void parameters_forget(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < capacity; i++)
		free(known[i].parameters);
	free(known);
	known = NULL;
	capacity = count = 0;
	pthread_mutex_unlock(&lock);
}
