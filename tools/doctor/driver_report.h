/* SPDX-License-Identifier: MIT */
/*
 * A real CUDA driver's account of itself.
 */
#ifndef SPILLWAY_DRIVER_REPORT_H
#define SPILLWAY_DRIVER_REPORT_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/ledger/codes.h"

enum { DRIVER_DEVICES = 16 };

/* Says whether memory on the host is charged to this process's memory cgroup. */
enum driver_charge { CHARGE_UNKNOWN, CHARGE_YES, CHARGE_NO };

struct driver_features {
	char name[64];
	bool vmm; /* virtual memory management: movable memory */
	bool providers_tried;
	unsigned int context_error; /* a CUresult: why they could not be tried */
	unsigned int ipc_error;     /* of sharing memory with another process; 0: it works */
	enum driver_charge charge;  /* of the first provider that works */
	unsigned int provider_error[PROVIDER_PINNED + 1]; /* by enum provider_code; 0: it works */
};

/* Filled in as far as the driver came; said is the message that stopped it, "" when nothing did. */
struct driver_report {
	char said[256];
	int version; /* 13000 is CUDA 13.0; 0: not known */
	int device_count;
	struct config_device device[DRIVER_DEVICES];
	struct driver_features features[DRIVER_DEVICES];
};

#endif
