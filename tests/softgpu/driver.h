/* SPDX-License-Identifier: MIT */
/*
 * The objects of the driver and the rules they share.
 *
 * context   CUcontext; owns streams, modules and what was allocated under it; its `error` is sticky
 * stream    CUstream; a FIFO of work run by a thread of its own
 * work      one entry of a stream: a copy, a kernel, a host function, a wait
 * mark      one recording of an event; done when the stream has reached it
 * range     one known range of addresses: an allocation, a mapping, pinned or managed host memory
 * physical  CUmemGenericAllocationHandle; bytes of a device or of the host, mapped or not
 * window    the addresses of all device memory
 * graph     CUgraph; nodes of work, captured from streams or made by hand; see graph.h
 *
 * Locks, outermost first: driver_lock (every object and queue; held by each entry point, not while
 * work runs), memory_lock (what addresses mean; work reads it), and those of machine.h.
 */
#ifndef SOFTGPU_DRIVER_H
#define SOFTGPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "tests/softgpu/config.h"
#include "tests/softgpu/identity.h"
#include "tests/softgpu/ptx/ptx.h"

#define EXPORT __attribute__((visibility("default")))

#define MULTIPROCESSORS              4
#define THREADS_PER_MULTIPROCESSOR   2048
#define BLOCKS_PER_MULTIPROCESSOR    32
#define THREADS_PER_BLOCK            1024
#define REGISTERS_PER_MULTIPROCESSOR 65536
#define SHARED_PER_BLOCK             (48 * 1024)
#define SHARED_PER_BLOCK_OPTIN       (163 * 1024)
#define SHARED_PER_MULTIPROCESSOR    (164 * 1024)
#define SHARED_RESERVED              1024

/*
 * Exports NAME and its per-thread-stream twin around NAME_on(call, stream, ...), which gets the
 * name of the symbol that was called. In the parameter list the stream must be called `stream`.
 */
#define EXPORT_ON_STREAM(name, params, ...)                      \
	EXPORT CUresult name params                              \
	{                                                        \
		return name##_on(#name, __VA_ARGS__);            \
	}                                                        \
	EXPORT CUresult name##_ptsz params;                      \
	EXPORT CUresult name##_ptsz params                       \
	{                                                        \
		stream = stream ? stream : CU_STREAM_PER_THREAD; \
		return name##_on(#name "_ptsz", __VA_ARGS__);    \
	}

/* The same for calls without a stream parameter, whose twin works on the thread's own stream. */
#define EXPORT_ON_DEFAULT(name, params, ...)                                        \
	EXPORT CUresult name params                                                 \
	{                                                                           \
		return name##_on(#name, CU_STREAM_LEGACY, __VA_ARGS__);             \
	}                                                                           \
	EXPORT CUresult name##_ptds params;                                         \
	EXPORT CUresult name##_ptds params                                          \
	{                                                                           \
		return name##_on(#name "_ptds", CU_STREAM_PER_THREAD, __VA_ARGS__); \
	}

/* handle.c: which pointers are objects of ours. All under driver_lock. */
enum handle_kind {
	HANDLE_CONTEXT,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_LIBRARY,
	HANDLE_KERNEL,
	HANDLE_PHYSICAL,
	HANDLE_POOL,
	HANDLE_LINK,
	HANDLE_GRAPH,
	HANDLE_GRAPH_NODE,
	HANDLE_GRAPH_EXEC,
	HANDLE_USER_OBJECT,
	HANDLE_ARRAY,
	HANDLE_MIPMAPPED_ARRAY,
};

struct handle {
	enum handle_kind kind;
	const void *key;
	UT_hash_handle hh;
};

/* `handle` must be the first member of its object. */
bool handle_add(struct handle *handle, enum handle_kind kind);
void handle_remove(struct handle *handle);
/*
 * Frees an object whose handle has been removed; a while later, so that no other is at its address.
 */
void handle_free(void *object);
/* The object, or NULL when `pointer` is no live object of that kind. */
void *handle_find(const void *pointer, enum handle_kind kind);

/* init.c */
extern pthread_mutex_t driver_lock;
struct context;
/*
 * Each entry point first calls one of these. They inject the failure asked for, refuse the call
 * before cuInit() (and without a context, or with a broken one), and on success hold driver_lock;
 * leave() releases it. The name is the exported symbol's.
 */
CUresult enter_driver(const char *name);
CUresult enter_context(const char *name, struct context **context);
/*
 * Takes and gives driver_lock in a thread of the program, which may be cancelled: not while it has
 * the lock, nor where a call lets it go for a wait.
 */
void driver_acquire(void);
void driver_release(void);
static inline CUresult leave(CUresult result)
{
	driver_release();
	return result;
}
/* Returns whether the driver works: after cuInit(), and not in a forked child. */
bool driver_is_ready(void);

/* fault_injection.c: the error the environment asks this use of a call to give. */
CUresult injected_failure(const char *name);

/* logs.c: tells the callbacks of the program what was said. No lock is held. */
void logs_deliver(void);

/* device.c */
struct device {
	int index;         /* among the visible ones: CUdevice */
	int machine_index; /* among those of the machine */
	char name[64];
	CUuuid uuid;
	struct context *primary;
	unsigned int primary_flags;
	struct pool *default_pool, *pool;
	pthread_mutex_t kernel_lock; /* one kernel of this process at a time */
	ptrdiff_t alias_delta;
	uint32_t peers;        /* devices that may access this one's memory, by bit */
	uint64_t host_traffic; /* bytes of host memory that the kernel now running has touched */
};

extern struct device devices[MAX_DEVICES];
extern int device_count;
void devices_find(void);
struct device *device_of(CUdevice ordinal);
/* Enters a call about one device: an ordinal, and out parameters that must be there. */
CUresult enter_device(const char *name, bool outputs, CUdevice ordinal, struct device **device);

/* attribute.c: what all devices answer to that attribute. */
int device_attribute(CUdevice_attribute attribute);
/* All multiprocessors, as a resource; no part of them can be split off here. */
CUresult device_resource(CUdevResource *resource, CUdevResourceType type);

/* context.c */
struct context {
	struct handle handle;
	struct device *device;
	unsigned long long id;
	unsigned int flags, api_version;
	int retained;               /* primary contexts */
	bool primary, alive, dying; /* dying: no longer alive, but still finishing its work */
	CUresult error;             /* what a kernel broke; every later call answers it */
	uint64_t memory;            /* device memory the context itself takes */
	size_t limits[CU_LIMIT_MAX];
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	struct stream *streams; /* those too that are closed but have work left */
	struct stream *legacy;
	struct stream *recorder; /* for cuCtxRecordEvent() */
	struct event *events;
	struct module *modules;
	struct library *libraries;
	struct kernel_heap *heap; /* NULL until a module is loaded whose kernels use it */
	struct context *next;
};

struct thread {
	struct context **stack; /* the top is current */
	int depth, capacity;
	unsigned long long id; /* never reused */
	CUstreamCaptureMode capture_mode;
	bool in_host_function;
};

extern struct context *contexts;
struct thread *this_thread(void);
struct context *current_context(void);
struct context *context_find(CUcontext handle);
/* Waits until all work now in the context is done. Releases driver_lock meanwhile. */
void context_drain(struct context *context);

/* Nodes of a graph, with the data of the edge to each; see graph.h. */
struct node_set {
	CUgraphNode *nodes;
	CUgraphEdgeData *edges;
	size_t count, capacity;
};

/* stream.c */
struct stream {
	struct handle handle;
	struct context *context;
	unsigned long long id;
	unsigned int flags;
	int priority;
	CUstreamAttrValue attributes[CU_LAUNCH_ATTRIBUTE_MAX]; /* kept, without effect */
	struct thread *owner;                                  /* of a per-thread default stream */
	struct capture *capture;                               /* it takes part in, or NULL */
	struct node_set tail; /* what the next captured node depends on */
	bool legacy, closing, started;
	int references;
	struct work *queue;
	uint64_t issued, done; /* tickets */
	uint64_t wanted;       /* the first ticket that a thread waits for; 0: none */
	uint64_t free_ns;      /* when its last piece of work was over */
	pthread_cond_t has_work;
	struct stream *prev, *next;
};

struct mark {
	int references;
	bool done;
	uint64_t time_ns;
};

struct dependency {
	struct stream *stream;
	uint64_t ticket;
};

struct work {
	/* Runs without driver_lock. `broken` is the context's sticky error; only work with
	 * `even_if_broken` is run then. The answer becomes the context's sticky error. */
	CUresult (*run)(struct work *work, CUresult broken);
	void (*release)(struct work *work); /* frees what hangs on it, under driver_lock; or NULL */
	bool even_if_broken;
	struct mark *wait; /* not before this */
	struct mark *mark; /* done when this work is */
	struct dependency *dependencies;
	int dependency_count;
	uint64_t ticket;
	/*
	 * By the device's clock, on which the simulator's own work between two pieces takes no
	 * time.
	 */
	uint64_t queued_ns;
	uint64_t start_ns; /* queued, and all it waits for is over */
	uint64_t end_ns;   /* run() may say; else when it returned */
	struct work *prev, *next;
};

/* Finds the stream meant by a handle, the default ones included; NULL when there is none. */
struct stream *stream_find(struct context *context, CUstream handle);
/* Makes the work wait for what another stream has queued; false without memory. */
bool work_depend(struct work *work, struct stream *stream, uint64_t ticket);
void work_free(struct work *work);
/* Returns whether work with that run() is next in the stream of work that runs, and can begin. */
bool stream_has_next(const struct work *work, CUresult (*run)(struct work *, CUresult));
/* Queues the work, which then belongs to the stream; frees it and answers an error otherwise. */
CUresult stream_submit(struct stream *stream, struct work *work);
/* Waits for all work queued so far, as cuStreamSynchronize(). Releases driver_lock meanwhile. */
CUresult stream_wait(struct stream *stream);
bool stream_idle(struct stream *stream);
struct stream *stream_create(struct context *context, unsigned int flags, int priority);
/* Takes the handle away; what is queued still runs. */
void stream_close(struct stream *stream);
void stream_reference(struct stream *stream);
void stream_unreference(struct stream *stream);
bool stream_reached(const struct stream *stream, uint64_t ticket);
/* Waits until the stream has done the work with that ticket. Releases driver_lock meanwhile. */
void stream_wait_for(struct stream *stream, uint64_t ticket);
/* Sleeps until a mark or a wanted ticket is done, or other progress is announced. */
void wait_for_progress(void);
/* Has the calls of other threads wait, from when they are next made. With the lock held. */
void hold_driver(void);
void let_driver_go(void);
void announce_progress(void);

/* event.c */
void mark_release(struct mark *mark);
void events_forget_context(struct context *context);

/* ipc_event.c: what is behind an event that other processes may have, too. */
struct shared_event;
struct shared_event *shared_event_new(void);
void shared_event_release(struct shared_event *event);
/* Opaque bytes for another process, and the event they mean; NULL when it is gone. */
void shared_event_export(const struct shared_event *event, CUipcEventHandle *handle);
struct shared_event *shared_event_import(const CUipcEventHandle *handle);
/*
 * Work that is a recording, which counts from now on, or the wait for the last one. NULL: no
 * memory.
 */
struct work *shared_event_record_work(struct shared_event *event, struct context *context);
struct work *shared_event_wait_work(struct shared_event *event, struct context *context);
bool shared_event_is_done(const struct shared_event *event);
/* Waits for the last recording. Releases driver_lock meanwhile. */
void shared_event_synchronize(struct shared_event *event);

#endif
