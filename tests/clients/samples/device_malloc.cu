/* SPDX-License-Identifier: MIT */
/* The kernels of device_malloc: lists whose cells come from malloc in kernels. */
struct cell {
	struct cell *next;
	unsigned value;
};

static __device__ unsigned step(unsigned state)
{
	return state * 1664525u + 1013904223u;
}

/* Each thread makes a list of its own length, of numbers that follow from its seed. */
extern "C" __global__ void build_lists(struct cell **lists, const unsigned *seeds, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	unsigned state = seeds[i];
	struct cell *list = NULL;
	for (unsigned left = seeds[i] % 17; left; left--) {
		struct cell *cell = new struct cell;
		cell->value = state = step(state);
		cell->next = list;
		list = cell;
	}
	lists[i] = list;
}

/* Another thread than the one that made a list sums it up, and frees every second cell. */
extern "C" __global__ void thin_lists(struct cell **lists, unsigned *sums, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	unsigned owner = count - 1 - i, sum = 0;
	for (struct cell *cell = lists[owner]; cell; cell = cell->next) {
		sum = sum * 31 + cell->value;
		if (struct cell *other = cell->next) {
			sum = sum * 31 + other->value;
			cell->next = other->next;
			delete other;
		}
	}
	sums[owner] = sum;
}

/* Sums up what is left, and frees it. */
extern "C" __global__ void drop_lists(struct cell **lists, unsigned *sums, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	unsigned sum = 0;
	for (struct cell *cell = lists[i], *next; cell; cell = next) {
		sum = sum * 31 + cell->value;
		next = cell->next;
		delete cell;
	}
	sums[i] = sum;
}

/* Each thread asks for that much; the answer, as a flag. What it got is freed at the end. */
extern "C" __global__ void ask(unsigned *got, unsigned long long size)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	void *block = malloc(size);

	got[i] = block != NULL;
	__syncthreads();
	free(block);
}
