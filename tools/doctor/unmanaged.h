/* SPDX-License-Identifier: MIT */
/* Programs that use a GPU without Spillway in them, as findings. */
#ifndef SPILLWAY_DOCTOR_UNMANAGED_H
#define SPILLWAY_DOCTOR_UNMANAGED_H

/* Looks twice. Where limits are enforced such a program is a fault, elsewhere a fact. */
void unmanaged_findings(void);

#endif
