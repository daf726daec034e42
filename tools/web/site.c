/* SPDX-License-Identifier: MIT */
/* The site of the page. */
#include "tools/web/site.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/printable.h"
#include "core/state/directory.h"
#include "tools/formats/json.h"
#include "tools/formats/report.h"
#include "tools/view/counters.h"
#include "tools/view/node.h"
#include "tools/view/reach.h"
#include "tools/view/unmanaged.h"
#include "tools/view/tool.h"
#include "tools/web/changes.h"
#include "tools/web/history.h"
#include "tools/web/sha256.h"

extern const char web_page[]; /* page.html, with a zero behind it */

enum { VALUE_MAX = 160, EVENTS_MAX = 200 };
#define FRESH_NS   200000000ull /* so many clients cost one look at the jobs */
#define SINCE_TEXT "--since=10m"

struct site {
	const struct site_options *options;
	char code[SITE_SECRET], token[SITE_SECRET];
	char node[256], user[NODE_USER_MAX];
	char *page_headers;
	struct history *history;
	struct unmanaged unmanaged;
	char *jobs; /* the document of `stat --json` as of jobs_ns */
	size_t jobs_size;
	uint64_t jobs_ns;
};

static const char json_headers[] = "Content-Type: application/json; charset=utf-8\r\n"
                                   "Cache-Control: no-store\r\n"
                                   "X-Content-Type-Options: nosniff\r\n"
                                   "Cross-Origin-Resource-Policy: same-origin\r\n";

static void make_secret(char secret[SITE_SECRET])
{
	unsigned char bytes[SITE_SECRET / 2];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		fail("getrandom: %s", strerror(errno));
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
}

static void renew_code(struct site *site)
{
	make_secret(site->code);
	site->options->say_code(site->code);
}

/* Compares in a time that does not depend on where they differ. */
static bool is_secret(const char *given, const char *secret)
{
	unsigned char differs = 0;

	if (strlen(given) != SITE_SECRET - 1)
		return false;
	for (size_t i = 0; i < SITE_SECRET - 1; i++)
		differs |= (unsigned char)(given[i] ^ secret[i]);
	return !differs;
}

/* --- the page --- */

/* Returns the digest of what stands between two tags of the page. */
static const char *digest_between(const char *begin, const char *end, char text[SHA256_TEXT])
{
	const char *from = strstr(web_page, begin);

	if (from && strstr(from, end)) {
		from += strlen(begin);
		return sha256_base64(from, (size_t)(strstr(from, end) - from), text);
	}
	fail("the page has no %s", begin);
}

static char *make_page_headers(void)
{
	char script[SHA256_TEXT], style[SHA256_TEXT];

	return text("Content-Type: text/html; charset=utf-8\r\n"
	            "Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; "
	            "style-src 'sha256-%s'; connect-src 'self'; img-src data:; base-uri 'none'; "
	            "form-action 'none'; frame-ancestors 'none'; "
	            "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
	            "Cache-Control: no-store\r\n"
	            "X-Content-Type-Options: nosniff\r\n"
	            "Referrer-Policy: no-referrer\r\n"
	            "Cross-Origin-Opener-Policy: same-origin\r\n"
	            "Cross-Origin-Resource-Policy: same-origin\r\n",
	            digest_between("<script>", "</script>", script),
	            digest_between("<style>", "</style>", style));
}

/* --- requests --- */

/* Takes the address or the name out of "ADDRESS:PORT". Returns false where that is neither. */
static bool host_name(const char *host, char name[256])
{
	const char *end = *host == '[' ? strchr(host, ']') : host + strcspn(host, ":");

	if (!end || end - host >= 256 || (*host == '[' && end[1] && end[1] != ':'))
		return false;
	snprintf(name, 256, "%.*s", (int)(end - host), host + (*host == '['));
	name[strcspn(name, "]")] = '\0';
	return true;
}

/*
 * Returns whether a Host is an address in numbers, this machine's own name or "localhost". No other
 * name is: its owner decides to which machine it points, and may change that.
 */
static bool is_own_host(const struct site *site, const char *host)
{
	unsigned char address[16];
	char name[256];

	return host_name(host, name) &&
	       (inet_pton(*host == '[' ? AF_INET6 : AF_INET, name, address) == 1 ||
	        strcasecmp(name, "localhost") == 0 ||
	        (*site->node && strcasecmp(name, site->node) == 0));
}

static bool is_own_origin(const struct serve_request *request)
{
	const char *origin = request->origin;
	size_t scheme = strncmp(origin, "http://", 7) == 0    ? 7
	                : strncmp(origin, "https://", 8) == 0 ? 8
	                                                      : 0;

	return scheme && strcasecmp(origin + scheme, request->host) == 0;
}

static int site_hex_digit(char digit)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = digit ? strchr(digits, digit | 0x20) : NULL;

	return at && *at ? (int)(at - digits) : -1;
}

/*
 * Reads a value out of "job=bert&memory=50%25". Returns false where it is not there, is empty or
 * too long, or where a character is not printable ASCII.
 */
static bool query_value(const char *query, const char *name, char value[VALUE_MAX])
{
	size_t length = strlen(name), at = 0;

	while (*query && (strncmp(query, name, length) != 0 || query[length] != '=')) {
		query += strcspn(query, "&");
		query += *query == '&';
	}
	if (!*query)
		return false;
	for (query += length + 1; *query && *query != '&'; query++) {
		int code = (unsigned char)*query;

		if (code == '%') {
			int high = site_hex_digit(query[1]),
			    low = high < 0 ? -1 : site_hex_digit(query[2]);

			if (low < 0)
				return false;
			code = 16 * high + low;
			query += 2;
		}
		if (code <= ' ' || code > '~' || at == VALUE_MAX - 1)
			return false;
		value[at++] = (char)code;
	}
	value[at] = '\0';
	return at > 0;
}

/* Reads the job that a request names, one that the site shows. */
static bool query_job(const struct site *site, const struct serve_request *request,
                      char job[VALUE_MAX])
{
	const char *only = site->options->job;

	return query_value(request->query, "job", job) &&
	       (!only || (strncmp(job, only, strlen(only)) == 0 &&
	                  (job[strlen(only)] == '\0' || job[strlen(only)] == '@')));
}

static void answer_status(struct serve_answer *answer, const char *status)
{
	struct json json = {.out = answer->body};

	answer->status = status;
	answer->headers = json_headers;
	json_open_document(&json);
	json_text(&json, "error", status + 4);
	json_close(&json, '}');
}

static void answer_unauthorized(struct serve_answer *answer)
{
	answer_status(answer, "401 Unauthorized");
	answer->headers = "WWW-Authenticate: Bearer\r\n"
	                  "Content-Type: application/json; charset=utf-8\r\n"
	                  "Cache-Control: no-store\r\n";
}

static bool has_secret(const struct serve_request *request, const char *secret)
{
	return strncasecmp(request->authorization, "Bearer ", 7) == 0 &&
	       is_secret(request->authorization + 7, secret);
}

/* --- data --- */

static void read_jobs(struct site *site)
{
	FILE *out;

	free(site->jobs);
	out = open_memstream(&site->jobs, &site->jobs_size);
	if (out)
		report_all_json(out, site->options->job, &site->unmanaged);
	if (!out || fclose(out) != 0)
		fail("out of memory");
	site->jobs_ns = clock_now();
}

static void answer_jobs(struct site *site, struct serve_answer *answer)
{
	uint64_t now = clock_now();

	if (!site->jobs || now - site->jobs_ns >= FRESH_NS)
		read_jobs(site);
	fwrite(site->jobs, 1, site->jobs_size, answer->body);
}

/* Gives the token for the code, or says the session's settings where the token is there already. */
static void answer_session(struct site *site, struct serve_answer *answer, bool is_new)
{
	struct json json = {.out = answer->body};

	json_open_document(&json);
	json_text(&json, "node", site->node);
	json_text(&json, "user", site->user);
	json_bool(&json, "control", site->options->has_control);
	if (is_new)
		json_text(&json, "token", site->token);
	json_close(&json, '}');
	if (is_new)
		renew_code(site);
}

static void answer_history(struct site *site, const char *job, struct serve_answer *answer)
{
	const char *at = strchr(job, '@');
	struct json json = {.out = answer->body};

	json_open_document(&json);
	history_json(site->history, at ? strtoull(at + 1, NULL, 16) : 0, &json);
	json_close(&json, '}');
}

/* Writes "status" and "said" of a command. */
static void command_said(struct serve_answer *answer, const char *said, bool failed)
{
	struct json json = {.out = answer->body};

	answer->headers = json_headers;
	if (failed)
		answer->status = "409 Conflict";
	json_open_document(&json);
	json_bool(&json, "failed", failed);
	json_text(&json, "said", said);
	json_close(&json, '}');
}

/* Says each change, also one that is like the one before. */
static void say_change(const char *how, const char *words)
{
	char *line = text("%s", words);

	for (size_t length = strlen(line); length && line[length - 1] == '\n'; length--)
		line[length - 1] = '\0';
	fprintf(stderr, "spillway: %s by the page: %s\n", how, printable(line));
	free(line);
}

static void control_ended(struct serve_answer *answer, char *said, bool failed)
{
	say_change(failed ? "refused" : "changed", said);
	changes_add(answer->about, said, failed);
	command_said(answer, said, failed);
}

/* Passes the document of a command on, or its complaint. */
static void document_ended(struct serve_answer *answer, char *said, bool failed)
{
	if (failed || *said != '{') {
		command_said(answer, said, true);
		return;
	}
	said[strcspn(said, "\n")] = '\0';
	answer->headers = json_headers;
	fputs(said, answer->body);
}

/* These come by the thousand; the page has them as curves. */
static bool event_matters(const char *line)
{
	static const char *const usual[] = {"burst", "slot", "turn", "step", "allocation", "free"};
	static const char key[] = "\"event\":\"";
	const char *event = strstr(line, key);

	for (size_t i = 0; event && i < sizeof usual / sizeof *usual; i++)
		if (strncmp(event + sizeof key - 1, usual[i], strlen(usual[i])) == 0)
			return false;
	return true;
}

/*
 * Writes the page's own changes and the newest events as one document. A line that is no event's is
 * left away.
 */
static void events_ended(struct serve_answer *answer, char *said, bool failed)
{
	char *line[EVENTS_MAX], *next;
	struct json json = {.out = answer->body};
	size_t count = 0;

	if (failed && *said != '{') {
		command_said(answer, said, true);
		return;
	}
	for (char *at = said; *at; at = next) {
		next = at + strcspn(at, "\n");
		if (*next)
			*next++ = '\0';
		if (*at == '{')
			line[count++ % EVENTS_MAX] = at;
	}
	answer->headers = json_headers;
	json_open_document(&json);
	json_open(&json, "events", '[');
	changes_list(answer->about, &json);
	for (size_t i = count < EVENTS_MAX ? 0 : count - EVENTS_MAX; i < count; i++) {
		fprintf(answer->body, "%s%s", json.follows ? "," : "", line[i % EVENTS_MAX]);
		json.follows = true;
	}
	json_close(&json, ']');
	json_close(&json, '}');
}

static void begin_command(struct serve_answer *answer, const char *const *words,
                          void (*ended)(struct serve_answer *answer, char *said, bool failed))
{
	for (int i = 0; words[i]; i++)
		answer->command[i] = text("%s", words[i]);
	answer->ended = ended;
}

/* --- control --- */

static void site_begin_change(struct serve_answer *answer, const char *const *words)
{
	char *line = text("%s", "");

	for (int i = 0; words[i]; i++) {
		char *longer = text("%s %s", line, words[i]);

		free(line);
		line = longer;
	}
	say_change("asked for", line + 1);
	answer->about = text("%s", line + 1);
	free(line);
	begin_command(answer, words, control_ended);
}

/* Begins the change that a path names: "set", "pause" or "resume". */
static void answer_change(const char *path, const struct serve_request *request, const char *job,
                          struct serve_answer *answer)
{
	static const char *const settings[] = {"memory", "share"};
	char value[VALUE_MAX], gpu[VALUE_MAX], option[2 * VALUE_MAX], at[2 * VALUE_MAX] = "";
	const char *name = NULL;

	if (strcmp(path, "set") != 0) {
		site_begin_change(answer, (const char *const[]){path, "--", job, NULL});
		return;
	}
	for (size_t i = 0; i < sizeof settings / sizeof *settings && !name; i++)
		if (query_value(request->query, settings[i], value))
			name = settings[i];
	if (!name) {
		answer_status(answer, "400 Bad Request");
		return;
	}
	snprintf(option, sizeof option, "--%s=%s", name, value);
	if (query_value(request->query, "gpu", gpu))
		snprintf(at, sizeof at, "--limit-gpu=%s", gpu);
	site_begin_change(answer, *at ? (const char *const[]){"set", option, at, "--", job, NULL}
	                              : (const char *const[]){"set", option, "--", job, NULL});
}

static bool is_change(const char *path)
{
	return strcmp(path, "set") == 0 || strcmp(path, "pause") == 0 ||
	       strcmp(path, "resume") == 0;
}

static void answer_control(const struct site *site, const char *path,
                           const struct serve_request *request, struct serve_answer *answer)
{
	char job[VALUE_MAX];

	if (strcmp(request->method, "POST") != 0) {
		answer_status(answer, "405 Method Not Allowed");
		return;
	}
	if (!site->options->has_control || !is_own_origin(request)) {
		answer_status(answer, "403 Forbidden");
		return;
	}
	if (!query_job(site, request, job)) {
		answer_status(answer, "400 Bad Request");
		return;
	}
	answer_change(path, request, job, answer);
}

/* --- paths --- */

/*
 * Asks for the price of limits from a tenth of the job's memory to all of it. what-if reads files,
 * too: a name that may be a path is refused.
 */
static void answer_what_if(const struct serve_request *request, const char *job,
                           struct serve_answer *answer)
{
	static const char limits[] = "--memory=10%,20%,30%,40%,50%,60%,70%,80%,90%,100%";
	char name[VALUE_MAX], gpu[VALUE_MAX] = "0", share[VALUE_MAX] = "100";
	char of_gpu[VALUE_MAX + 8], at_share[VALUE_MAX + 8];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(job, "@"), job);
	if (directory_check_name(name) != 0 || strchr(job, '/')) {
		answer_status(answer, "400 Bad Request");
		return;
	}
	query_value(request->query, "gpu", gpu);
	query_value(request->query, "share", share);
	snprintf(of_gpu, sizeof of_gpu, "--gpu=%s", gpu);
	snprintf(at_share, sizeof at_share, "--share=%s", share);
	begin_command(
	    answer,
	    (const char *const[]){"what-if", "--json", limits, of_gpu, at_share, "--", job, NULL},
	    document_ended);
}

static void answer_job(struct site *site, const char *path, const struct serve_request *request,
                       const char *job, struct serve_answer *answer)
{
	answer->about = text("%s", job);
	answer->matters = strcmp(path, "events") == 0 ? event_matters : NULL;
	if (strcmp(path, "history") == 0)
		answer_history(site, job, answer);
	else if (strcmp(path, "events") == 0)
		begin_command(
		    answer, (const char *const[]){"events", "--json", SINCE_TEXT, "--", job, NULL},
		    events_ended);
	else
		answer_what_if(request, job, answer);
}

/* Answers a request that has shown the token, of a path below /api/v1/. */
static void answer_data(struct site *site, const char *path, const struct serve_request *request,
                        struct serve_answer *answer)
{
	bool is_of_job = strcmp(path, "history") == 0 || strcmp(path, "events") == 0 ||
	                 strcmp(path, "what-if") == 0;
	char job[VALUE_MAX];

	answer->headers = json_headers;
	if (is_change(path))
		answer_control(site, path, request, answer);
	else if (!is_of_job && strcmp(path, "stat") != 0 && strcmp(path, "session") != 0)
		answer_status(answer, "404 Not Found");
	else if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
		answer_status(answer, "405 Method Not Allowed");
	else if (is_of_job && !query_job(site, request, job))
		answer_status(answer, "400 Bad Request");
	else if (is_of_job)
		answer_job(site, path, request, job, answer);
	else if (strcmp(path, "stat") == 0)
		answer_jobs(site, answer);
	else
		answer_session(site, answer, false);
}

static void answer_api(struct site *site, const char *path, const struct serve_request *request,
                       struct serve_answer *answer)
{
	bool needs_token = !site->options->is_private;

	if (!is_own_host(site, request->host) || (*request->origin && !is_own_origin(request))) {
		answer_status(answer, "403 Forbidden");
		return;
	}
	answer->headers = json_headers;
	if (needs_token && strcmp(path, "session") == 0 && strcmp(request->method, "POST") == 0 &&
	    has_secret(request, site->code))
		answer_session(site, answer, true);
	else if (needs_token && !has_secret(request, site->token))
		answer_unauthorized(answer);
	else
		answer_data(site, path, request, answer);
}

/* The entrance of an exporter without a page. */
static const char entrance[] =
    "<!DOCTYPE html><title>Spillway</title><a href=\"metrics\">Spillway's metrics</a>\n";

static void answer_root(const struct site *site, const struct serve_request *request,
                        struct serve_answer *answer)
{
	if (!site->options->has_page) {
		answer->headers = "Content-Type: text/html; charset=utf-8\r\n";
		fputs(entrance, answer->body);
	} else if (!is_own_host(site, request->host)) {
		answer_status(answer, "403 Forbidden");
	} else {
		answer->headers = site->page_headers;
		fputs(web_page, answer->body);
	}
}

static void site_answer(const struct serve_request *request, struct serve_answer *answer,
                        void *cookie)
{
	static const char api[] = "/api/v1/";
	struct site *site = cookie;
	bool is_metrics = site->options->metrics && strcmp(request->path, "/metrics") == 0;

	if (site->options->has_page && strncmp(request->path, api, sizeof api - 1) == 0) {
		answer_api(site, request->path + sizeof api - 1, request, answer);
		return;
	}
	answer->headers = "Content-Type: text/plain; charset=utf-8\r\n";
	if (!is_metrics && strcmp(request->path, "/") != 0) {
		answer->status = "404 Not Found";
		fputs("404 Not Found\n", answer->body);
	} else if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
		answer->status = "405 Method Not Allowed";
		answer->headers = "Content-Type: text/plain; charset=utf-8\r\nAllow: GET, HEAD\r\n";
		fputs("405 Method Not Allowed\n", answer->body);
	} else if (is_metrics) {
		answer->headers = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
		site->options->metrics(answer->body, site->options->job);
	} else {
		answer_root(site, request, answer);
	}
}

/* --- history --- */

static void sample_view(struct history *history, const struct segment_view *view, uint64_t now)
{
	for (int gpu = 0; gpu < view->device_count; gpu++) {
		const struct statistics *total = &view->job_total[gpu];

		history_add(
		    history, view->token, gpu,
		    &(struct history_sample){
		        .at_ns = now,
		        .device = view->charged[gpu][SEGMENT_ON_DEVICE],
		        .host = view->charged[gpu][SEGMENT_ON_HOST],
		        .busy_ns = counter_busy_is_known(total) ? total->busy_ns : UINT64_MAX,
		        .steps = total->steps,
		        .launches = total->launches + total->graph_launches});
	}
}

static void sample_page(struct history *history, const struct page *page, uint64_t now)
{
	for (uint32_t gpu = 0; gpu < page->device_count; gpu++)
		history_add(
		    history, page->token, (int)gpu,
		    &(struct history_sample){.at_ns = now,
		                             .device = page->device[gpu].charged[SEGMENT_ON_DEVICE],
		                             .host = page->device[gpu].charged[SEGMENT_ON_HOST],
		                             .busy_ns = UINT64_MAX,
		                             .steps = UINT64_MAX,
		                             .launches = UINT64_MAX});
}

static void site_tick(void *cookie)
{
	struct site *site = cookie;
	struct reach_walk walk = reach_walk(site->options->job);
	uint64_t now = clock_of_day();

	while (reach_next(&walk)) {
		if (walk.view && jobs_live_process(walk.view))
			sample_view(site->history, walk.view, now);
		else if (!walk.view && walk.page && walk.page->running)
			sample_page(site->history, &walk.page->page, now);
	}
	history_forget(site->history, now);
	/* A look needs a megabyte for a moment, and small blocks between free ones keep pages. */
	malloc_trim(0);
}

/* A job that cannot be read is said once, and not with each look. */
static void say_once(const char *line)
{
	enum { SAID = 16 };
	static char *said[SAID];
	static int count;

	for (int i = 0; i < SAID && said[i]; i++)
		if (strcmp(said[i], line) == 0)
			return;
	free(said[count % SAID]);
	said[count++ % SAID] = text("%s", line);
	fprintf(stderr, "spillway: %s\n", line);
}

void site_begin(const struct site_options *options, struct serve_site *served)
{
	struct site *site = allocate(sizeof *site);

	site->options = options;
	*served = (struct serve_site){.answer = site_answer, .cookie = site};
	if (!options->has_page)
		return;
	if (gethostname(site->node, sizeof site->node - 1) != 0)
		*site->node = '\0';
	node_user(geteuid(), site->user, sizeof site->user);
	site->page_headers = make_page_headers();
	site->history = history_create();
	served->tick = site_tick;
	served->tick_ns = HISTORY_INTERVAL_NS;
	make_secret(site->token);
	if (!options->is_private)
		renew_code(site);
	complain_to = say_once;
}
