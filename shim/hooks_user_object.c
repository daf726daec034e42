/* SPDX-License-Identifier: MIT */
/* User objects of the program, which graphs hold. */
#include "shim/track.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/job/job.h"

/* References that the program and its graphs hold, as far as the calls say. */
static void user_object_hold(CUuserObject object, int64_t change)
{
	struct resource *known = context_find_object(&object_type_user_object, HANDLE(object));

	if (known)
		object_use(known, change);
	resource_release(known);
}

/*
 * Graphs, their clones and executable graphs hold references too; when the last one goes only the
 * driver knows, and it tells by calling the program's destructor.
 */
struct user_object {
	CUhostFn destroy;
	void *data;
	_Atomic uint64_t object; /* 0: not known yet */
};

static void CUDA_CB user_object_ends(void *cookie)
{
	struct user_object *u = cookie;
	struct tracked going;

	untrack(&object_type_user_object, atomic_load(&u->object), &going);
	untrack_end(&going, CUDA_SUCCESS);
	u->destroy(u->data);
	free(u);
}

HOOK(cuUserObjectCreate, CUuserObject *object_out, void *ptr, CUhostFn destroy,
     unsigned int initialRefcount, unsigned int flags)
{
	KEEP_ERRNO;
	struct user_object *u =
	    job_is_active() && object_out && destroy ? calloc(1, sizeof(*u)) : NULL;
	CUresult result;

	if (!u)
		return REAL(cuUserObjectCreate)(object_out, ptr, destroy, initialRefcount, flags);
	u->destroy = destroy;
	u->data = ptr;
	result = REAL(cuUserObjectCreate)(object_out, u, user_object_ends, initialRefcount, flags);
	if (result != CUDA_SUCCESS) {
		free(u);
		return result;
	}
	atomic_store(&u->object, HANDLE(*object_out));
	track(&object_type_user_object, HANDLE(*object_out), 0);
	user_object_hold(*object_out, initialRefcount);
	return result;
}

AFTER(cuUserObjectRetain, (CUuserObject, object), (unsigned int, count))
{
	user_object_hold(object, count);
}

AFTER(cuUserObjectRelease, (CUuserObject, object), (unsigned int, count))
{
	user_object_hold(object, -(int64_t)count);
}

/* Moved references only change their holder. */
AFTER(cuGraphRetainUserObject, (CUgraph, graph), (CUuserObject, object), (unsigned int, count),
      (unsigned int, flags))
{
	user_object_hold(object, flags & CU_GRAPH_USER_OBJECT_MOVE ? 0 : count);
}

AFTER(cuGraphReleaseUserObject, (CUgraph, graph), (CUuserObject, object), (unsigned int, count))
{
	user_object_hold(object, -(int64_t)count);
}
