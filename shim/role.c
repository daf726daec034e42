/* SPDX-License-Identifier: MIT */
/* As what the object is preloaded. */
#include "shim/role.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/vgpu/stand_in.h"

void shim_take_role(void)
{
	const char *slash;
	char folder[PATH_MAX];
	Dl_info self;

	if (!shim_role.stands_in || stand_in_is() || !dladdr((void *)shim_take_role, &self))
		return;
	slash = strrchr(self.dli_fname, '/');
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - self.dli_fname) : 0,
	         self.dli_fname);
	stand_in_begin(folder);
}
