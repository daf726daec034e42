/* SPDX-License-Identifier: MIT */
/* Memory that host and device use by the same pointers, allocated and declared. */
#include "check.h"

struct Node {
	int value;
	Node *next;
};

__managed__ int visits = 1;
__managed__ Node *head;
__device__ int on_device_only;

__global__ void walk(int *sum)
{
	int total = 0;
	for (Node *node = head; node; node = node->next) {
		total += node->value;
		node->value = -node->value;
		visits++;
	}
	*sum = total;
}

int main()
{
	const int count = 100;
	Node *nodes;
	int *sum;
	CHECK(visits == 1);
	GOOD(cudaMallocManaged(&nodes, count * sizeof(Node)));
	GOOD(cudaMallocManaged(&sum, sizeof(int)));
	for (int i = 0; i < count; i++)
		nodes[i] = {i, i + 1 < count ? &nodes[i + 1] : nullptr};
	head = nodes;
	cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
	GOOD(cudaMemAdvise(nodes, count * sizeof(Node), cudaMemAdviseSetPreferredLocation, device));
	GOOD(cudaMemPrefetchAsync(nodes, count * sizeof(Node), device, 0, 0));
	walk<<<1, 1>>>(sum);
	GOOD(cudaDeviceSynchronize());
	CHECK(*sum == count * (count - 1) / 2);
	CHECK(visits == 1 + count);
	for (int i = 0; i < count; i++)
		CHECK(nodes[i].value == -i);
	int copy = 0;
	GOOD(cudaMemcpyFromSymbol(&copy, visits, sizeof(copy)));
	CHECK(copy == visits);
	cudaPointerAttributes attributes;
	GOOD(cudaPointerGetAttributes(&attributes, &visits));
	CHECK(attributes.type == cudaMemoryTypeManaged);
	GOOD(cudaFree(nodes));
	GOOD(cudaFree(sum));
	std::printf("managed: ok\n");
	return 0;
}
