/* SPDX-License-Identifier: MIT */
/*
 * The site of the page: its paths, and the requests that are answered.
 *
 * Every user of the machine reaches an address, the loopback's, too. So data is for requests with
 * the session's token alone, or for those that come by a socket file of mode 0600. The page gets
 * the token for a one-time code, which stands behind the "#" of the URL that is printed: it is in
 * no request line, no log and no Referer. The token is in no cookie: a browser would send that to
 * other users' servers at other ports of the same address.
 *
 * A name that another site's owner lets point to this machine (DNS rebinding) is refused by its
 * Host, and a request of another site's page by its Origin.
 */
#ifndef SPILLWAY_SITE_H
#define SPILLWAY_SITE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/formats/serve.h"

enum { SITE_SECRET = 33 };

struct site_options {
	const char *job;  /* NULL: all */
	bool has_page;    /* else /metrics alone */
	bool is_private;  /* only the user reaches it, by a socket file: no token is asked for */
	bool has_control; /* jobs may be changed */
	void (*metrics)(FILE *out, const char *job); /* NULL: no /metrics */
	/* Says a new code, at first and each time one has been used. */
	void (*say_code)(const char *code);
};

/* Begins the site, and fills in what serve() needs. Options stay the caller's, and live on. */
void site_begin(const struct site_options *options, struct serve_site *served);

#endif
