/* SPDX-License-Identifier: MIT */
/* Lists of users. Rules: runs inside the user's process, which asks nobody for names of users. */
#include "core/config/snapshot.h"

#include <stdlib.h>
#include <string.h>

static const char between[] = ", \t";

bool config_is_user_list(const char *text)
{
	const char *rest = text + strspn(text, between);

	if (!*rest || strlen(text) >= CONFIG_USERS_MAX)
		return false;
	while (*rest) {
		size_t digits = strspn(rest, "0123456789");

		if (digits == 0 || digits > 10)
			return false;
		rest += digits;
		if (*rest && !strchr(between, *rest))
			return false;
		rest += strspn(rest, between);
	}
	return true;
}

bool config_lists_user(const char *list, uid_t user)
{
	char *rest;

	if (!*list)
		return true;
	for (list += strspn(list, between); *list; list = rest + strspn(rest, between)) {
		unsigned long long number = strtoull(list, &rest, 10);

		if (rest == list)
			return false;
		if (number == user)
			return true;
	}
	return false;
}
