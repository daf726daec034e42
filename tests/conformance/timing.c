/* What must hold of times, whatever the device: all answers are yes or no. */
#include "tests/conformance/transcript.h"

#include <unistd.h>

static CUfunction kernel;
static CUdeviceptr sink;

/* Milliseconds of a launch by the device's events, and as the host saw them. */
static void measure(CUstream stream, unsigned launches, float *device_ms, double *host_ms)
{
	CUevent start, stop;

	CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	CU(cuStreamSynchronize(stream));
	double began = program_now_ms();
	CU(cuEventRecord(start, stream));
	for (unsigned i = 0; i < launches; i++)
		spin(kernel, sink, stream);
	CU(cuEventRecord(stop, stream));
	CU(cuEventSynchronize(stop));
	*host_ms = program_now_ms() - began;
	CU(cuEventElapsedTime(device_ms, start, stop));
	CU(cuEventDestroy(start));
	CU(cuEventDestroy(stop));
}

int main(void)
{
	char name[256];
	CUstream stream;
	CUevent start, stop;
	float one, three, ms;
	double host;

	client_open_device(name);
	kernel = spin_kernel();
	sink = client_alloc(4);
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	measure(stream, 1, &one, &host); /* the first launch may load code */
	measure(stream, 1, &one, &host);
	tell_bool("a kernel of 4 million dependent steps takes more than 1 ms", one > 1);
	tell_bool("the host sees at least the device's time", host * 1.05 + 0.5 > one);
	measure(stream, 3, &three, &host);
	tell_bool("three in one stream take longer than one", three > one);
	tell_bool("and the host sees at least that", host * 1.05 + 0.5 > three);

	/* A launch comes back before the kernel ends. */
	CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	spin(kernel, sink, stream);
	CU(cuEventRecord(stop, stream));
	tell_status("right after a launch", cuEventQuery(stop));
	CU(cuEventSynchronize(stop));
	tell_status("after waiting", cuEventQuery(stop));

	/* Time between events counts the stream's idle time too. */
	CU(cuEventRecord(start, stream));
	usleep(20000);
	CU(cuEventRecord(stop, stream));
	CU(cuEventSynchronize(stop));
	CU(cuEventElapsedTime(&ms, start, stop));
	tell_bool("20 ms of nothing between two events are there", ms > 15);

	/* Synchronous copies wait for what is before them in the default stream. */
	unsigned value = 0;
	CU(cuMemsetD32(sink, 0, 1));
	spin(kernel, sink, NULL);
	CU(cuMemcpyDtoH(&value, sink, sizeof(value)));
	tell_bool("a copy to the host waits for the kernel before it", value != 0);

	CU(cuEventDestroy(start));
	CU(cuEventDestroy(stop));
	CU(cuStreamDestroy(stream));
	client_free(&sink, 4);
	client_close_device(0);
	return 0;
}
