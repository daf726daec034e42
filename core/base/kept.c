/* SPDX-License-Identifier: MIT */
/* Kept objects. Rules: runs inside the user's process, in any thread of it, as it ends, too. */
#include "core/base/kept.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/once.h"

static __thread struct {
	void *object;
	bool is_known; /* the thread's end will free it */
} kept __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static struct once key_once;
static bool has_key;

/* Frees it at the thread's end. A destructor that runs later may keep another. */
static void kept_end(void *unused)
{
	(void)unused;
	free(kept.object);
	kept.object = NULL;
	kept.is_known = false;
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, kept_end) == 0;
}

static bool be_known(void)
{
	once_call(&key_once, make_key);
	kept.is_known = has_key && pthread_setspecific(key, &kept) == 0;
	return kept.is_known;
}

void *kept_take(void)
{
	void *object = kept.object;

	kept.object = NULL;
	return object;
}

void kept_give(void *object)
{
	if (kept.object || (!kept.is_known && !be_known()))
		free(object);
	else
		kept.object = object;
}
