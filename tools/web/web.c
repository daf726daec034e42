/* SPDX-License-Identifier: MIT */
/* spillway web: the page, for a browser of the same user. */
#include "tools/web/web.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/state/directory.h"
#include "tools/formats/serve.h"
#include "tools/view/arguments.h"
#include "tools/view/tool.h"
#include "tools/web/site.h"

struct web_options {
	const char *port, *socket;
	bool control, control_as_root, open;
};

static char web_url[SERVE_URL_MAX];
static char *web_opened; /* the file that a browser was asked to open; NULL: none */

static void take_port(const struct argument *argument, const char *value)
{
	uint64_t port;

	if (units_parse_count(value, &port) != 0 || port > 65535)
		usage_error("--port '%s': expected 0 to 65535", value);
	argument_text(argument, value);
}

static void web_read_command_line(struct web_options *web, int argc, char **argv)
{
	const struct argument options[] = {
	    {"port", 0, "PORT", "Of 127.0.0.1; 0: one that is free (0)", take_port, &web->port},
	    {"socket", 0, "FILE", "Serve on a socket file of mode 0600, without a code",
	     argument_file, &web->socket},
	    {"control", 0, NULL, "Let the page change jobs", argument_flag, &web->control},
	    {"control-as-root", 0, NULL, "Likewise as root, jobs of all users", argument_flag,
	     &web->control_as_root},
	    {"open", 0, NULL, "Open it in a browser", argument_flag, &web->open},
	    {0},
	};
	const struct command_line line = {
	    .command = "spillway web",
	    .operands = "",
	    .about =
	        "Serves a page of the jobs at 127.0.0.1 until interrupted, and prints its URL.",
	    .options = options,
	};
	char **operands = arguments_read(&line, argc, argv);

	if (*operands)
		usage_error("'%s': expected no operand", *operands);
	if (web->socket && (web->port || web->open || web->control || web->control_as_root))
		usage_error("--socket: expected without --port, --open and --control");
	if (web->control && geteuid() == 0)
		usage_error("--control: expected a user other than root, or --control-as-root");
	web->control |= web->control_as_root;
}

/* Starts a browser as nobody's child, so that its end need not be waited for. */
static void start_browser(const char *file)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t between = fork();

	if (between == 0) {
		dup2(nothing, STDIN_FILENO);
		dup2(nothing, STDOUT_FILENO);
		dup2(nothing, STDERR_FILENO);
		if (fork() == 0)
			execlp("xdg-open", "xdg-open", file, (char *)NULL);
		_exit(0);
	}
	close(nothing);
	if (between > 0)
		waitpid(between, NULL, 0);
}

/*
 * Opens a browser. Arguments can be read by every user, so its argument is a file of mode 0600,
 * which leads on to the URL; the file goes once the code is used.
 */
static void open_page(const char *code)
{
	char folder[PATH_MAX];
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *path = text("%s/spillway-web-XXXXXX.html",
	                  runtime && *runtime ? runtime : directory_path(folder, sizeof folder));
	int file = mkostemps(path, 5, O_CLOEXEC);

	if (file < 0) {
		complain("%s: %s", path, strerror(errno));
		free(path);
		return;
	}
	dprintf(file, "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=%s/#%s\">\n",
	        web_url, code);
	close(file);
	web_opened = path;
	start_browser(path);
}

static void forget_opened(void)
{
	if (web_opened)
		unlink(web_opened);
	free(web_opened);
	web_opened = NULL;
}

static void print_code(const char *code)
{
	forget_opened();
	printf("%s/#%s\n", web_url, code);
	output_flush();
}

static void print_and_open_code(const char *code)
{
	static bool is_open;

	print_code(code);
	if (!is_open)
		open_page(code);
	is_open = true;
}

static void complain_code(const char *code)
{
	fprintf(stderr, "spillway: the page, once: %s/#%s\n", web_url, code);
}

int command_web(int argc, char **argv)
{
	struct web_options web = {0};
	struct site_options options = {.has_page = true, .say_code = print_code};
	struct serve_site site;
	int listener;

	web_read_command_line(&web, argc, argv);
	options.has_control = web.control;
	options.is_private = web.socket;
	if (web.open)
		options.say_code = print_and_open_code;
	if (web.socket) {
		listener = serve_listen_file(web.socket);
		printf("%s\n", web.socket);
		output_flush();
	} else {
		char *address = text("127.0.0.1:%s", web.port ? web.port : "0");

		listener = serve_listen(address, web_url);
		free(address);
	}
	site_begin(&options, &site);
	serve(listener, &site);
}

void web_export(const char *address, const char *job, bool has_page,
                void (*metrics)(FILE *out, const char *job))
{
	const struct site_options options = {
	    .job = job, .has_page = has_page, .metrics = metrics, .say_code = complain_code};
	int listener = serve_listen(address, web_url);
	struct serve_site site;

	complain("serving %s/metrics", web_url);
	site_begin(&options, &site);
	serve(listener, &site);
}
