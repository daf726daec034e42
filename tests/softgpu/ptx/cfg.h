/* SPDX-License-Identifier: MIT */
/* Control flow of a function: where the paths of a divergent branch meet again. */
#ifndef SOFTGPU_PTX_CFG_H
#define SOFTGPU_PTX_CFG_H

#include "text.h"

/*
 * Fills insn->join of each branch. Candidates are the CONTROL_JOIN instructions in the code; those
 * that turn out to be none are removed, and every instruction index is adapted.
 */
void cfg_place_joins(struct reader *r, struct insn *code, uint32_t *count, struct table *tables);

#endif
