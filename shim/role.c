/* SPDX-License-Identifier: MIT */
/* The role in which the object is preloaded. */
#include "shim/role.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/job/module.h"

void shim_take_role(void)
{
	static _Atomic bool is_taken;
	const char *slash;
	char folder[PATH_MAX];
	Dl_info self;

	if (!shim_role.stands_in || atomic_load(&is_taken) ||
	    !dladdr((void *)shim_take_role, &self))
		return;
	slash = strrchr(self.dli_fname, '/');
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - self.dli_fname) : 0,
	         self.dli_fname);
	modules_call(hami_mode, folder);
	atomic_store(&is_taken, true);
}
