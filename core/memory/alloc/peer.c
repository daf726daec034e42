/* Peers. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/peer.h"

#include "core/cuda/gate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/reach.h"

static void open_to(void *cookie, struct allocation *a)
{
	const CUmemAccessDesc *access = cookie;

	/* Managed and pinned memory is reached by every device. */
	if (a->side == SEGMENT_ON_HOST && a->backing.provider == &provider_vmm)
		driver.cuMemSetAccess(a->backing.address, a->backing.size, access, 1);
}

static void open_run(void *cookie, CUdeviceptr address, uint64_t size)
{
	driver.cuMemSetAccess(address, size, cookie, 1);
}

void peer_reaches(struct device *owner, struct device *reader)
{
	CUmemAccessDesc access = reach_right(reader->handle);
	uint32_t bit = 1u << reader->id.ordinal;
	struct context context;

	if (owner == reader || (atomic_fetch_or(&owner->reached_by, bit) & bit))
		return;
	for (size_t i = 0; context_at(i, &context); i++) {
		if (context.device == owner)
			allocation_each_of_ours(&context, open_to, &access);
	}
	/* What the mover maps elsewhere from now on has the right as well. */
	gate_enter();
	elastic_each_run(owner, open_run, &access);
	gate_leave();
}
