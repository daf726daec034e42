/* SPDX-License-Identifier: MIT */
/*
 * The probe: questions about virtual memory that documentation leaves open, put to a driver.
 *
 * question  a name that never changes, so that answers of two machines can be compared
 * answer    one word or a few figures; what it rests on is the evidence
 * group     questions of one kind; each is asked in a process of its own (see apart.h)
 */
#ifndef PROBE_H
#define PROBE_H

#include "tests/gpu/gpu.h"

#define gpu_kernel(name) gpu_kernel_of("probe_kernels.ptx", name)

/* Asks in a process of its own, in which the device is open. */
#define ASK(question, call)                     \
	do {                                    \
		if (apart_begin(question)) {    \
			if (gpu_open(question)) \
				call;           \
			apart_end();            \
		}                               \
	} while (0)

/* The groups. Each asks all its questions, whatever the driver can do. */
bool ask_device(void); /* false: there is none */
void ask_providers(void);
void ask_copies(void);
void ask_fills(void);
void ask_graphs(void);
void ask_atomics(void);
void ask_sharing(void);
void ask_peers(void);
void ask_runs(void);
void ask_waits(void);
void ask_costs(void);
void ask_bandwidth(void);
void ask_reset(void);

#endif
