/* SPDX-License-Identifier: MIT */
/*
 * The driver's log: its messages, kept for cuLogs*. Callbacks are called by the thread that leaves
 * a call of the driver, without a lock, before its answer is seen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/driver.h"

#define KEPT_MOST 25600 /* bytes, as cuda.h has it */
#define LOST      "(older messages are left out)\n"

struct message {
	CUlogIterator number;
	size_t length;
	struct message *prev, *next;
	char text[]; /* a line with its end */
};

struct CUlogsCallbackEntry_st {
	CUlogsCallback call;
	void *data;
	struct CUlogsCallbackEntry_st *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t delivering = PTHREAD_MUTEX_INITIALIZER; /* one thread at a time */
static struct message *messages;
static size_t kept;
static CUlogIterator next_number;
static CUlogIterator told; /* the first that callbacks have not seen */
static struct CUlogsCallbackEntry_st *callbacks;

static void drop_oldest(void)
{
	struct message *oldest = messages;
	DL_DELETE(messages, oldest);
	kept -= oldest->length;
	free(oldest);
}

static void note(const char *line)
{
	size_t length = strlen(line) + strlen("ERROR: \n");
	struct message *message = malloc(sizeof(*message) + length + 1);
	if (!message)
		return;
	snprintf(message->text, length + 1, "ERROR: %s\n", line);
	message->length = length;
	pthread_mutex_lock(&lock);
	message->number = next_number;
	__atomic_store_n(&next_number, next_number + 1, __ATOMIC_RELEASE);
	DL_APPEND(messages, message);
	kept += length;
	while (kept > KEPT_MOST)
		drop_oldest();
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
	say_too = note;
}

static struct message *first_from(CUlogIterator number)
{
	struct message *message;
	DL_FOREACH (messages, message) {
		if (message->number >= number)
			break;
	}
	return message;
}

/* Calls the callbacks with one message; the lock is held, and let go for each call. */
static void tell(const struct message *message)
{
	char text[1024];
	size_t length = message->length < sizeof(text) ? message->length : sizeof(text);
	memcpy(text, message->text, length);
	text[length - 1] = '\0'; /* in place of the end of the line */
	for (int i = 0;; i++) {
		struct CUlogsCallbackEntry_st *callback = callbacks;
		for (int k = 0; callback && k < i; k++)
			callback = callback->next;
		if (!callback)
			return;
		struct CUlogsCallbackEntry_st now = *callback;
		pthread_mutex_unlock(&lock);
		now.call(now.data, CU_LOG_LEVEL_ERROR, text, length - 1);
		pthread_mutex_lock(&lock);
	}
}

void logs_deliver(void)
{
	if (__atomic_load_n(&told, __ATOMIC_ACQUIRE) ==
	        __atomic_load_n(&next_number, __ATOMIC_ACQUIRE) ||
	    pthread_mutex_trylock(&delivering) != 0)
		return;
	pthread_mutex_lock(&lock);
	while (told != next_number) {
		const struct message *message = first_from(told);
		__atomic_store_n(&told, message ? message->number + 1 : next_number,
		                 __ATOMIC_RELEASE);
		if (message)
			tell(message);
	}
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&delivering);
}

EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data,
                                       CUlogsCallbackHandle *out)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	struct CUlogsCallbackEntry_st *callback = calloc(1, sizeof(*callback));
	if (!callback)
		return CUDA_ERROR_OUT_OF_MEMORY;
	callback->call = function;
	callback->data = data;
	pthread_mutex_lock(&lock);
	DL_APPEND(callbacks, callback);
	__atomic_store_n(&told, next_number, __ATOMIC_RELEASE); /* not what was said before */
	pthread_mutex_unlock(&lock);
	if (out)
		*out = callback;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct CUlogsCallbackEntry_st *callback;
	pthread_mutex_lock(&lock);
	DL_FOREACH (callbacks, callback) {
		if (callback == handle)
			break;
	}
	if (callback)
		DL_DELETE(callbacks, callback);
	pthread_mutex_unlock(&lock);
	free(callback);
	return callback ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLogsCurrent(CUlogIterator *out, unsigned int flags)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*out = __atomic_load_n(&next_number, __ATOMIC_ACQUIRE);
	return CUDA_SUCCESS;
}

/*
 * The first message of those from `from` on, such that all that follow have room; NULL: not one
 * has. The lock is held.
 */
static struct message *first_that_fits(CUlogIterator from, size_t room, bool *whole)
{
	struct message *first = first_from(from), *message;
	size_t bytes = 0;
	DL_FOREACH (first, message) {
		bytes += message->length;
	}
	*whole = first && first->number == from && bytes < room;
	for (room -= *whole || room < strlen(LOST) ? 0 : strlen(LOST); first && bytes >= room;
	     first = first->next)
		bytes -= first->length;
	return first;
}

/* Where to begin: at the iterator, which goes on to the end; or at the oldest message. */
static CUlogIterator begin_at(CUlogIterator *iterator)
{
	CUlogIterator from = iterator ? *iterator : messages ? messages->number : next_number;
	if (iterator)
		*iterator = next_number;
	return from;
}

EXPORT CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
                                   unsigned int flags)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!buffer || !size || *size == 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	size_t room = *size;
	bool whole;
	*size = 0;
	buffer[0] = '\0';
	pthread_mutex_lock(&lock);
	CUlogIterator from = begin_at(iterator);
	const struct message *message = first_that_fits(from, room, &whole);
	if (!message && from != next_number)
		result = CUDA_ERROR_INVALID_VALUE;
	if (message && !whole && room > strlen(LOST))
		*size = (size_t)snprintf(buffer, room, "%s", LOST);
	for (; message; message = message->next) {
		memcpy(buffer + *size, message->text, message->length + 1);
		*size += message->length;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
	CUresult result = injected_failure(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	FILE *file = path && flags == 0 ? fopen(path, "we") : NULL;
	if (!file)
		return CUDA_ERROR_INVALID_VALUE;
	bool whole;
	pthread_mutex_lock(&lock);
	CUlogIterator from = begin_at(iterator);
	const struct message *message = first_that_fits(from, SIZE_MAX, &whole);
	if (message && !whole)
		fputs(LOST, file);
	for (; message; message = message->next)
		fputs(message->text, file);
	pthread_mutex_unlock(&lock);
	return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
