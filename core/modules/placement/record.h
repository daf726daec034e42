/* SPDX-License-Identifier: MIT */
/*
 * The record of a survey: the text by which `spillway what-if` predicts steps under other limits
 * (tools/whatif/record.h reads it).
 *
 * It lies in the state directory as JOB.survey-GPU, and the next survey of that GPU replaces it.
 * Lines of words, so that a version can be read beside the next one:
 *
 *   spillway-survey VERSION
 *   name TEXT                     the device's
 *   gpu INDEX MEMORY RUN          MEMORY: bytes of the device; RUN: the token of the job's segment
 *   limit BYTES                   in force; 18446744073709551615: none
 *   held BYTES                    of all memory of the process, on both tiers
 *   link TO-HOST TO-DEVICE        bytes per second as the mover measured them; 0: it has not
 *   how STEPS SHARED WHOLE        STEPS: 0 where launches of a while were taken; SHARED: 1 where
 *                                 other jobs' kernels ran meanwhile; WHOLE: 1 where allocations
 *                                 move as a whole
 *   pieces COUNT                  memory that moves, in the order of addresses, a line each:
 *   RUN TIER BYTES READ           RUN: -1 where no kernel uses it; TIER: 0 device, 1 host
 *   kernels COUNT                 in the order of launches, a line each:
 *   KEY NS AT USES RUN...         as struct weigh_kernel
 *   nodes                         the kernels of launches, in the order in which they run, a line
 *                                 each: one of a plain launch, all of a graph's, none where they
 *                                 are not known
 *   LAUNCH RUN OFFSET...          LAUNCH: the number of the launch above, from 0; then each address
 *                                 that the kernel was given: bytes behind the beginning of its run
 *   end
 */
#ifndef SPILLWAY_RECORD_H
#define SPILLWAY_RECORD_H

enum { RECORD_VERSION = 2 };

#endif
