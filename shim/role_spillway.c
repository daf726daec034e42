/* SPDX-License-Identifier: MIT */
/* The role of libspillway.so. */
#include "shim/role.h"

const struct shim_role shim_role = {.stands_in = false};
