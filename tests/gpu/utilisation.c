/* SPDX-License-Identifier: MIT */
/*
 * utilisation SECONDS: prints the mean of NVML's utilisation of device 0 in that time, in percent.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/softgpu/nvml/abi.h"

enum { PERIOD_US = 100000 };

int main(int argc, char **argv)
{
	nvmlReturn_t (*init)(void);
	nvmlReturn_t (*by_index)(unsigned int, nvmlDevice_t *);
	nvmlReturn_t (*rates)(nvmlDevice_t, nvmlUtilization_t *);
	int samples = argc == 2 ? atoi(argv[1]) * 1000000 / PERIOD_US : 0;
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlDevice_t device;
	double sum = 0;

	if (samples < 1 || !nvml) {
		fprintf(stderr, "utilisation: %s\n", samples < 1 ? "expected seconds" : dlerror());
		return 1;
	}
	*(void **)&init = dlsym(nvml, "nvmlInit_v2");
	*(void **)&by_index = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&rates = dlsym(nvml, "nvmlDeviceGetUtilizationRates");
	if (!init || !by_index || !rates || init() != NVML_SUCCESS ||
	    by_index(0, &device) != NVML_SUCCESS) {
		fprintf(stderr, "utilisation: NVML does not work\n");
		return 1;
	}
	for (int i = 0; i < samples; i++) {
		nvmlUtilization_t now;
		usleep(PERIOD_US);
		if (rates(device, &now) != NVML_SUCCESS) {
			fprintf(stderr, "utilisation: NVML does not say it\n");
			return 1;
		}
		sum += now.gpu;
	}
	printf("%.1f\n", sum / samples);
	return 0;
}
