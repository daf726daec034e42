/* SPDX-License-Identifier: MIT */
/* Addresses and bytes: physical memory, the window of device addresses, the table of ranges. */
#ifndef SOFTGPU_MEMORY_H
#define SOFTGPU_MEMORY_H

#include "tests/softgpu/driver.h"
#include "tests/softgpu/machine.h"

/* Guards the window's pages and the table of ranges; written only with driver_lock held too. */
extern pthread_rwlock_t memory_lock;

/* physical.c: bytes that exist. */
struct physical {
	struct handle handle;
	int device;      /* whose memory, or -1: the host's */
	int file;        /* with the bytes, at `offset` */
	uint64_t offset; /* in the file */
	uint64_t size;
	bool own_file; /* no other memory of this process is in the file */
	bool shared;   /* other processes may hold it, by `name` */
	struct shared_name name;
	CUmemAllocationProp properties;
	int references; /* cuMemCreate, cuMemRetainAllocationHandle */
	int mappings;
	bool exposed;          /* the application has its handle */
	struct physical *next; /* of those that are shared */
};

bool physical_open(void);
/* Bytes of devices[device], or of the host (-1). OUT_OF_MEMORY when the device is full. */
CUresult physical_create(int device, uint64_t size, struct physical **physical);
/* The same in a file of its own, which can be given to another process as a descriptor. */
CUresult physical_create_exportable(int device, uint64_t size, struct physical **physical);
/* Frees it once neither a reference nor a mapping is left. */
void physical_drop(struct physical *physical);
/* Frees what only waited for the descriptors that were given away to be closed. */
void physical_settle(void);
/* Gives it a name by which other processes can hold it, too. */
bool physical_share(struct physical *physical);
/* The memory of that name, if this process has it already. */
struct physical *physical_named(const struct shared_name *name);
/* Memory that this process holds by its name: bytes of `file`, which then belongs to it. */
struct physical *physical_adopt(int file, uint64_t offset, uint64_t size, int device,
                                const struct shared_name *name);

/* window.c: device addresses, in pages of GRANULARITY. */
struct page {
	struct physical *physical;  /* NULL: nothing mapped */
	uint32_t index;             /* of this page in it */
	uint8_t readable, writable; /* by which devices */
	bool host_readable;         /* by the CPU: memory of the host that was given to it */
	bool reserved;
};

bool window_open(void);
/* Makes the device's view of the window exist. */
bool window_view(struct device *device);
bool window_holds(uint64_t address);
uint64_t window_base(void);
uint64_t window_size(void);
struct page *window_page(uint64_t address);
/* Takes unused addresses, at `wish` if it is free; 0: there are none. */
uint64_t window_reserve(uint64_t size, uint64_t alignment, uint64_t wish);
void window_unreserve(uint64_t base, uint64_t size);
/* Maps the whole of `physical`, without rights. */
void window_map(uint64_t base, struct physical *physical);
void window_unmap(uint64_t base, uint64_t size);
bool window_allow(uint64_t base, uint64_t size, const struct device *device, bool read, bool write);
/* The same for the CPU, which then finds the memory at its own addresses. */
bool window_allow_host(uint64_t base, uint64_t size, bool read, bool write);
/*
 * Returns where the bytes of a device address are, and tells how many follow in one piece; NULL
 * when it is not mapped or the access is not allowed. Hold memory_lock while using them.
 */
void *window_bytes(uint64_t address, bool write, uint64_t *run);

/* range.c: what is known about addresses. */
enum range_kind {
	RANGE_DEVICE,     /* cuMemAlloc */
	RANGE_POOLED,     /* cuMemAllocAsync */
	RANGE_MODULE,     /* a variable of a module */
	RANGE_HEAP,       /* of malloc in kernels: the host cannot name it */
	RANGE_MAPPING,    /* cuMemMap */
	RANGE_HOST,       /* cuMemHostAlloc, cuMemAllocHost */
	RANGE_REGISTERED, /* cuMemHostRegister */
	RANGE_MANAGED,    /* cuMemAllocManaged */
	RANGE_GRAPH,      /* a memory node of a graph, backed while that says so */
	RANGE_ARRAY,      /* an array's or mipmapped array's, for copies alone */
	RANGE_IMPORTED,   /* another process's, by cuIpcOpenMemHandle or cuMemPoolImportPointer */
};

struct range {
	uint64_t base, size;
	enum range_kind kind;
	struct context *context; /* it was made under; NULL for mappings */
	int device;
	unsigned int flags; /* of the call that made it */
	uint64_t id;
	struct graph_memory *graph_memory; /* a memory node's */
	struct physical *physical;         /* a mapping's or a large allocation's own */
	struct small_block *block;         /* a small allocation's */
	struct pool *pool;                 /* a pooled one's, or managed memory's */
	struct pool_extent *extent;        /* and its place there */
	struct managed *managed;
	struct arrays *arrays;
	bool of_module; /* managed, but a variable of a module */
	bool sync_memops;
	int opened;             /* an imported one: how many times; managed of a pool: not freed */
	uint64_t import_offset; /* and where in its physical memory it begins */
};

struct range *range_add(enum range_kind kind, uint64_t base, uint64_t size,
                        struct context *context);
void range_remove(struct range *range);
/* The range that holds the address, or NULL. Hold memory_lock or driver_lock. */
struct range *range_find(uint64_t address);
/* The first range at or after `index` in address order; NULL at the end. */
struct range *range_at(size_t index);
/* Returns whether [base, base + size) touches any range. */
bool range_overlaps(uint64_t base, uint64_t size);

/* memory.c: plain device memory. */
CUresult device_allocate(struct context *context, uint64_t size, enum range_kind kind,
                         struct range **range);
/* The physical memory that a range of plain memory is in, and where. */
struct physical *device_physical(const struct range *range, uint64_t *offset);
/* Frees at once; the caller has waited. */
void device_free(struct range *range);
/* Maps all of it at new addresses, for the devices in the mask; 0: there are none. */
uint64_t map_physical(struct physical *physical, uint32_t for_whom);
/* Maps fresh memory of the device where the devices in the mask `for_whom` can use it. */
CUresult device_map(const struct device *device, uint32_t for_whom, uint64_t size,
                    struct physical **physical, uint64_t *base);
void device_unmap(struct physical *physical, uint64_t base);
/* Frees all that was allocated under the context. */
void memory_forget_context(struct context *context);

/* host.c */
void host_range_free(struct range *range);
/* managed.c */
CUresult managed_allocate(struct context *context, uint64_t size, unsigned int flags,
                          struct range **range);
void managed_free(struct range *range);
/* Advises all of it to prefer a location; false without memory for that. */
bool managed_prefer(struct range *range, CUmemLocation location);
/* None of it is on a device any more. */
void managed_evict(struct range *range);
/* managed_pool.c: whether managed memory of pools and graphs may be there. */
CUresult managed_location_check(const CUmemLocation *location);
/* So many bytes of the pool are gone. */
void managed_pool_gone(struct pool *pool, uint64_t size);
/* A kernel of the device touches managed memory at this address; memory_lock is read-held. */
void managed_touch(struct range *range, int device, uint64_t address);
/* Returns whether a device has that block. */
bool managed_is_on_device(struct range *range, uint64_t address);
/* array.c */
void array_range_free(struct range *range);
/* vmm.c: the physical memory behind a handle that still counts, or NULL. */
struct physical *physical_of(CUmemGenericAllocationHandle handle);
/* Its node of the host has the memory again. */
void node_give_back(const struct physical *physical);
/* ipc.c */
void imported_free(struct range *range);
/* Names a piece of device memory to another process, and maps one that another has named. */
struct ipc_memory;
CUresult ipc_describe(struct physical *physical, uint64_t offset, uint64_t size,
                      struct ipc_memory *memory);
CUresult ipc_map(const struct ipc_memory *memory, struct context *context, struct range **range);
/* pool.c */
/* Gives the device's pools' spare memory back as far as they may keep it; called where work ends.
 */
void pools_trim(struct context *context);
/* The same when the last context of a device ends: nothing is kept. */
void pools_empty(struct device *device);
/* Frees after the work that is now in the stream; at once without a stream. */
CUresult pooled_free(struct range *range, struct stream *stream);

/* graph_memory.c */
/* Frees after the work that is now in the stream; at once without one. Refused when it is not
 * allocated, or is for its graph to free. */
CUresult graph_memory_free(struct range *range, struct stream *stream);
/* Its context ends: the memory goes, whoever knows of it. */
void graph_memory_forget(struct range *range);
/* Gives back the device's memory that graphs which are gone have left. */
void graph_memory_empty(const struct device *device);
/* Returns whether it is allocated where the work is now, if it is managed. Hold memory_lock. */
bool graph_memory_may_touch(const struct graph_memory *memory);
CUmemAllocationHandleType pool_handle_types(const struct pool *pool);

/* bandwidth.c */
/* Returns whether the byte is on the host's side of the link. Hold memory_lock or driver_lock. */
bool is_on_host(uint64_t address);
/* Returns how long so many bytes take to cross the link. */
uint64_t host_link_ns(uint64_t bytes);
/* One copy's or fill's use of it. host_link_use() sleeps until all its bytes can have crossed. */
struct host_link {
	uint64_t began_ns, bytes;
};

void host_link_use(struct host_link *link, uint64_t bytes);
/* `size`, or what of it lies in one place. */
uint64_t host_link_piece(uint64_t address, uint64_t size);
/* A warp of a kernel of the device touches host memory. */
void host_link_access(struct device *device, uint64_t bytes);
/* Around a kernel: the bytes of host memory that it touched. */
void host_traffic_begin(struct device *device);
uint64_t host_traffic_end(struct device *device);

/* kernel_heap.c: what malloc and free in kernels of a context use */
/* Makes the heap if there is none yet, of the size that the context's limit says. */
CUresult kernel_heap_open(struct context *context);
void kernel_heap_close(struct context *context);
uint64_t kernel_heap_allocate(void *context, uint64_t size, uint64_t align);
bool kernel_heap_free(void *context, uint64_t address);

/* graph_conditional.c: sets the value of a handle; false: the context has no such handle */
bool conditional_set(void *context, uint64_t id, uint32_t value);

/* kernel_memory.c: the memory description for the executor. */
struct ptx_memory kernel_memory(struct context *context);

#endif
