/* softgpu-truth: prints the books of the software GPU, one line per device and process. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/softgpu/machine.h"

#define MOST 256

int main(void)
{
	struct softgpu_truth truth[MOST];
	puts("device\tpid\tphysical_bytes\tbusy_ns\tlaunches\tmapped_bytes\thost_bytes\tfetched_"
	     "bytes");
	for (int device = 0;; device++) {
		int count = machine_truth(device, truth, MOST);
		if (count < 0)
			break;
		for (int i = 0; i < count && i < MOST; i++)
			printf("%d\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			       "\t%" PRIu64 "\t%" PRIu64 "\n",
			       device, truth[i].pid, truth[i].physical_bytes, truth[i].busy_ns,
			       truth[i].launches, truth[i].mapped_bytes, truth[i].host_bytes,
			       truth[i].fetched_bytes);
	}
	return 0;
}
