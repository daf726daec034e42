/* SPDX-License-Identifier: MIT */
/* Facts about times that hold for any device: all answers are yes or no. */
#include "tests/conformance/transcript.h"

#include <unistd.h>

int main(void)
{
	char name[256];
	CUstream stream;
	CUevent start, middle, stop;
	float one, three, ms;
	struct hold hold;

	client_open_device(name);
	CUfunction kernel = spin_kernel();
	CUdeviceptr sink = client_alloc(4);
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&middle, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	spin(kernel, sink, stream); /* the first launch may load code */
	CU(cuStreamSynchronize(stream));

	double began = program_now_ms();
	CU(cuEventRecord(start, stream));
	spin(kernel, sink, stream);
	CU(cuEventRecord(middle, stream));
	spin(kernel, sink, stream);
	spin(kernel, sink, stream);
	CU(cuEventRecord(stop, stream));
	CU(cuEventSynchronize(stop));
	double host = program_now_ms() - began;
	CU(cuEventElapsedTime(&one, start, middle));
	CU(cuEventElapsedTime(&three, start, stop));
	tell_bool("a kernel of 4 million dependent steps takes more than 1 ms", one > 1);
	tell_bool("with two more behind it at least 2 ms more", three > one + 2);
	/* 5 %: the device may have a clock of its own. */
	tell_bool("the host sees at least the device's time", host * 1.05 + 0.5 > three);

	/* A launch comes back before the kernel has run. */
	hold_stream(&hold, stream);
	spin(kernel, sink, stream);
	CU(cuEventRecord(stop, stream));
	tell_status("right after a launch", cuEventQuery(stop));
	hold_end(&hold);
	CU(cuEventSynchronize(stop));
	tell_status("after waiting", cuEventQuery(stop));

	/* Time between events counts the stream's idle time too. */
	CU(cuEventRecord(start, stream));
	CU(cuEventSynchronize(start));
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
	CU(cuEventDestroy(middle));
	CU(cuEventDestroy(stop));
	CU(cuStreamDestroy(stream));
	client_free(&sink, 4);
	client_close_device(0);
	return 0;
}
