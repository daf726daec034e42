/* SPDX-License-Identifier: MIT */
/*
 * HTTP by one thread and poll().
 *
 * A client is another user's program: a request has at most REQUEST_MAX bytes and a connection
 * CONNECTION_NS from beginning to end. A request is answered at once, however many connections are
 * silent: where there are CONNECTIONS already, or no more descriptors, the one that has been
 * silent for longest makes room for the next. Every answer ends its connection. An answer that is
 * a command's waits for that command; the others go on meanwhile.
 *
 * libmicrohttpd was considered in place of it: some 250 lines here would go. But it brings GnuTLS
 * into a process that may be root's, and the tool would no longer run on each machine that it is
 * copied to. At its limit of connections it waits until one ends, so that silent clients would keep
 * Prometheus out, as they cannot here. A handful of paths, three methods and no body are less than
 * its set-up. Codes, tokens, Host and Origin would be ours to check in any case.
 */
#include "tools/formats/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "tools/view/arguments.h"
#include "tools/view/child.h"
#include "tools/view/tool.h"

enum { CONNECTIONS = 128, REQUEST_MAX = 4096, BACKLOG = 256, SHORT_NS = 100000000 };
enum { CHILDREN = 8, SAID_MAX = 256 << 10 };
#define CONNECTION_NS 5000000000ull
#define COMMAND_NS    30000000000ull
#define LINGER_NS     1000000000ull

struct connection {
	int socket; /* -1: none */
	uint64_t deadline_ns;
	uint64_t number; /* the later it came the greater */
	size_t received;
	char request[REQUEST_MAX + 1];
	bool is_head; /* only the answer's headers are wanted */
	bool waits;   /* for a command */
	char *answer; /* NULL: the request is not complete yet, or it waits */
	size_t size, sent;
	bool is_answered; /* what still comes is read and thrown away until the other side ends */
};

/* A command whose words an answer is made of. */
struct command {
	pid_t process; /* 0: none */
	int output;
	uint64_t deadline_ns;
	struct connection *connection; /* NULL: it has gone */
	bool (*matters)(const char *line);
	void (*ended)(struct serve_answer *answer, char *said, bool failed);
	char *about, *said;
	size_t judged, length; /* lines that matter, and with what was not judged yet */
};

struct server {
	struct serve_site site;
	int listener;
	uint64_t accepted, next_tick_ns;
	struct connection connection[CONNECTIONS];
	struct command command[CHILDREN];
};

/* Resolves an address in numbers, so that no name service is asked; NULL when it is none. */
static struct addrinfo *serve_resolve(const char *address)
{
	static const struct addrinfo hints = {
	    .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(address, ':');
	size_t length = colon ? (size_t)(colon - address) : 0;
	bool bracketed = length > 2 && *address == '[' && colon[-1] == ']';
	struct addrinfo *found = NULL;
	char *host;

	if (length == 0 || colon[1] == '\0' || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
		return NULL;
	host = text("%.*s", (int)(bracketed ? length - 2 : length), address + bracketed);
	/* a bare IPv6 address leaves open where the port begins */
	if (bracketed == (strchr(host, ':') != NULL) &&
	    getaddrinfo(host, colon + 1, &hints, &found) != 0)
		found = NULL;
	free(host);
	return found;
}

void serve_check(const char *address)
{
	struct addrinfo *found = serve_resolve(address);

	if (!found)
		usage_error("--listen '%s': expected ADDRESS:PORT in numbers, such as "
		            "127.0.0.1:9435 or [::1]:9435",
		            address);
	freeaddrinfo(found);
}

int serve_listen(const char *address, char url[SERVE_URL_MAX])
{
	struct addrinfo *at = serve_resolve(address);
	int yes = 1, listener = -1;
	struct sockaddr_storage bound;
	socklen_t size = sizeof bound;
	char host[64], port[8];

	if (at)
		listener = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
	    bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, BACKLOG) != 0 ||
	    getsockname(listener, (struct sockaddr *)&bound, &size) != 0)
		fail("--listen %s: %s", address, strerror(errno));
	freeaddrinfo(at);
	*url = '\0';
	if (getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
	                NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(url, SERVE_URL_MAX, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s",
		         host, port);
	return listener;
}

/* Removes a socket file of an earlier server that has ended. */
static void serve_remove_stale(const struct sockaddr_un *at)
{
	int try = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat file;

	if (try >= 0 && file_status_itself(at->sun_path, &file) == 0 && S_ISSOCK(file.st_mode) &&
	    file.st_uid == geteuid() &&
	    connect(try, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED)
		unlink(at->sun_path);
	if (try >= 0)
		close(try);
}

int serve_listen_file(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t mask = umask(0177); /* 0600 from the first moment */
	int listener = -1;

	if (strlen(path) >= sizeof at.sun_path)
		fail("--socket %s: longer than %zu characters", path, sizeof at.sun_path - 1);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	serve_remove_stale(&at);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (const struct sockaddr *)&at, sizeof at) != 0 ||
	    listen(listener, BACKLOG) != 0)
		fail("--socket %s: %s", path, strerror(errno));
	umask(mask);
	return listener;
}

/* Returns a stream into memory, or ends the tool. */
static FILE *open_memory(char **memory, size_t *size)
{
	FILE *out = open_memstream(memory, size);

	if (!out)
		fail("out of memory");
	return out;
}

static void serve_do_answer(struct connection *connection, const char *status, const char *headers,
                            const char *body, size_t size)
{
	FILE *out = open_memory(&connection->answer, &connection->size);

	fprintf(out, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status,
	        size, headers);
	if (!connection->is_head)
		fwrite(body, 1, size, out);
	if (fclose(out) != 0)
		fail("out of memory");
}

static void answer_error(struct connection *connection, const char *status)
{
	char *body = text("%s\n", status);

	serve_do_answer(connection, status, "Content-Type: text/plain; charset=utf-8\r\n", body,
	                strlen(body));
	free(body);
}

/* An answer while it is written, and where its body goes. */
struct writing {
	struct serve_answer answer;
	char *body;
	size_t size;
};

static void writing_begin(struct writing *writing)
{
	*writing = (struct writing){.answer = {.status = "200 OK", .headers = ""}};
	writing->answer.body = open_memory(&writing->body, &writing->size);
}

/* Gives the answer to its connection; NULL: that has gone. */
static void writing_end(struct writing *writing, struct connection *connection)
{
	if (fclose(writing->answer.body) != 0)
		fail("out of memory");
	if (connection)
		serve_do_answer(connection, writing->answer.status, writing->answer.headers,
		                writing->body, writing->size);
	free(writing->body);
}

/* Begins the command that an answer is to be made of. */
static void command_start(struct server *server, struct connection *connection,
                          const struct serve_answer *wanted)
{
	struct command *command = server->command;

	while (command < server->command + CHILDREN && command->process)
		command++;
	if (command == server->command + CHILDREN) {
		answer_error(connection, "503 Service Unavailable");
		return;
	}
	*command = (struct command){.connection = connection,
	                            .matters = wanted->matters,
	                            .ended = wanted->ended,
	                            .about = text("%s", wanted->about ? wanted->about : ""),
	                            .said = allocate(SAID_MAX + 1),
	                            .deadline_ns = clock_now() + COMMAND_NS};
	command->process =
	    child_begin(CHILD_OF_PAGE, (const char *const *)wanted->command, &command->output);
	connection->waits = true;
	connection->deadline_ns = command->deadline_ns + CONNECTION_NS;
}

/* Keeps the end of what a command says, from the beginning of a line on. */
static void command_make_room(struct command *command)
{
	char *line = memchr(command->said + SAID_MAX / 2, '\n', SAID_MAX / 2);
	size_t from = line ? (size_t)(line + 1 - command->said) : SAID_MAX / 2;

	command->length -= from;
	command->judged = command->judged > from ? command->judged - from : 0;
	memmove(command->said, command->said + from, command->length);
}

/* Takes out the lines that do not matter. */
static void command_judge(struct command *command)
{
	char *end = command->said + command->length, *line = command->said + command->judged;
	char *kept = line, *next;

	for (; (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
		size_t length = (size_t)(next + 1 - line);

		*next = '\0';
		if (command->matters(line)) {
			*next = '\n';
			memmove(kept, line, length);
			kept += length;
		}
	}
	command->judged = (size_t)(kept - command->said);
	memmove(kept, line, (size_t)(end - line));
	command->length = command->judged + (size_t)(end - line);
}

/* Reads what a command says, and answers once it has ended. */
static void command_read(struct command *command)
{
	struct writing writing;
	int status = 0;
	ssize_t length;

	if (command->length == SAID_MAX)
		command_make_room(command);
	length = read(command->output, command->said + command->length, SAID_MAX - command->length);
	if (length > 0)
		command->length += (size_t)length;
	if (length > 0 && command->matters)
		command_judge(command);
	if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	close(command->output);
	while (waitpid(command->process, &status, 0) < 0 && errno == EINTR)
		continue;
	command->said[command->length] = '\0';
	writing_begin(&writing);
	writing.answer.about = command->about;
	command->ended(&writing.answer, command->said,
	               !WIFEXITED(status) || WEXITSTATUS(status) != 0);
	if (command->connection) {
		command->connection->waits = false;
		command->connection->deadline_ns = clock_now() + CONNECTION_NS;
	}
	writing_end(&writing, command->connection);
	free(command->about);
	free(command->said);
	*command = (struct command){0};
}

/*
 * Takes the headers that a site reads out of the lines behind the first. Returns false where one
 * stands there twice or a line is none.
 */
static bool read_headers(char *lines, struct serve_request *request)
{
	const struct {
		const char *name;
		const char **into;
	} wanted[] = {{"Host", &request->host},
	              {"Origin", &request->origin},
	              {"Authorization", &request->authorization}};
	char *next;

	for (char *line = lines; *line; line = next) {
		size_t length = strcspn(line, "\r\n"), name = strcspn(line, ":");

		next = line + length;
		next += *next == '\r';
		next += *next == '\n';
		if (length == 0)
			return true;
		if (name == 0 || name >= length || *line == ' ' || *line == '\t')
			return false;
		line[name] = line[length] = '\0';
		for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
			if (strcasecmp(line, wanted[i].name) != 0)
				continue;
			if (**wanted[i].into)
				return false;
			*wanted[i].into = line + name + 1 + strspn(line + name + 1, " \t");
		}
	}
	return true;
}

/* Reads "GET /metrics?x HTTP/1.1", and the headers. Returns false where it is no request. */
static bool read_request(char *line, struct serve_request *request)
{
	size_t length = strcspn(line, "\r\n");
	char *rest = line + length + (line[length] == '\r') + 1, *target, *version, *query;

	line[length] = '\0';
	target = strchr(line, ' ');
	version = target ? strchr(target + 1, ' ') : NULL;
	if (!version || strncmp(version + 1, "HTTP/1.", 7) != 0 || strchr(version + 1, ' '))
		return false;
	*target++ = *version = '\0';
	query = target + strcspn(target, "?");
	if (*query)
		*query++ = '\0';
	*request = (struct serve_request){.method = line,
	                                  .path = target,
	                                  .query = query,
	                                  .host = "",
	                                  .origin = "",
	                                  .authorization = ""};
	return read_headers(rest, request);
}

static void serve_decide(struct server *server, struct connection *connection)
{
	struct serve_request request;
	struct writing writing;

	if (!read_request(connection->request, &request)) {
		answer_error(connection, "400 Bad Request");
		return;
	}
	connection->is_head = strcmp(request.method, "HEAD") == 0;
	writing_begin(&writing);
	server->site.answer(&request, &writing.answer, server->site.cookie);
	if (writing.answer.ended)
		command_start(server, connection, &writing.answer);
	for (int i = 0; i < SERVE_WORDS; i++)
		free(writing.answer.command[i]);
	free(writing.answer.about);
	writing_end(&writing, writing.answer.ended ? NULL : connection);
}

static void serve_drop(struct server *server, struct connection *connection)
{
	for (int i = 0; i < CHILDREN && connection->waits; i++)
		if (server->command[i].connection == connection)
			server->command[i].connection = NULL;
	close(connection->socket);
	free(connection->answer);
	*connection = (struct connection){.socket = -1};
}

static bool is_complete(const char *request)
{
	return strstr(request, "\r\n\r\n") || strstr(request, "\n\n");
}

static void serve_receive(struct server *server, struct connection *connection)
{
	char rest[1024];
	bool is_read = connection->answer || connection->waits;
	char *to = is_read ? rest : connection->request + connection->received;
	size_t room = is_read ? sizeof rest : REQUEST_MAX - connection->received;
	ssize_t length = recv(connection->socket, to, room, 0);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0) {
		serve_drop(server, connection);
		return;
	}
	if (is_read)
		return;
	connection->received += (size_t)length;
	connection->request[connection->received] = '\0';
	if (is_complete(connection->request))
		serve_decide(server, connection);
	else if (connection->received == REQUEST_MAX)
		answer_error(connection, "431 Request Header Fields Too Large");
}

/*
 * Transmits the answer. Then we say that we have ended, and wait until the other side does: closing
 * while something of theirs is unread would reset the connection and take our answer with it.
 */
static void transmit(struct server *server, struct connection *connection)
{
	ssize_t length = send(connection->socket, connection->answer + connection->sent,
	                      connection->size - connection->sent, MSG_NOSIGNAL);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length < 0) {
		serve_drop(server, connection);
		return;
	}
	connection->sent += (size_t)length;
	if (connection->sent < connection->size)
		return;
	connection->is_answered = true;
	connection->deadline_ns = clock_now() + LINGER_NS;
	shutdown(connection->socket, SHUT_WR);
}

/*
 * Returns how much is lost with a connection, from the least: a client that asked nothing, a client
 * that is slow to read its answer, a client that waits for an answer.
 */
static int worth(const struct connection *connection)
{
	if (!connection->answer)
		return connection->waits ? 2 : 0;
	return connection->is_answered ? 1 : 2;
}

/*
 * Returns a place that is free, or was that of the connection that is worth least, of those the
 * oldest.
 */
static struct connection *serve_make_room(struct server *server, bool free_will_do)
{
	struct connection *least = NULL;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		int more;

		if (connection->socket < 0 && free_will_do)
			return connection;
		if (connection->socket < 0)
			continue;
		more = least ? worth(connection) - worth(least) : -1;
		if (more < 0 || (more == 0 && connection->number < least->number))
			least = connection;
	}
	if (least)
		serve_drop(server, least);
	return least;
}

/*
 * Accepts one. A request is answered before another comes, so no sender is the oldest that is
 * silent. Returns whether there may be more.
 */
static bool accept_one(struct server *server)
{
	int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error = socket < 0 ? errno : 0;
	struct connection *connection;

	if (error == EAGAIN)
		return false;
	if (error == ECONNABORTED || error == EINTR)
		return true; /* it has gone again */
	if (error) {
		/*
		 * we are short of something, of descriptors most likely, and it would be there at
		 * once
		 */
		if (!serve_make_room(server, false))
			deadline_sleep(SHORT_NS);
		return false;
	}
	connection = serve_make_room(server, true);
	connection->socket = socket;
	connection->number = server->accepted++;
	connection->deadline_ns = clock_now() + CONNECTION_NS;
	serve_receive(server, connection);
	return true;
}

/* Accepts as many as there are places, so that others have their turn. */
static void serve_accept_all(struct server *server)
{
	int count = 0;

	while (count < CONNECTIONS && accept_one(server))
		count++;
}

enum { POLLED = CONNECTIONS + CHILDREN + 1 };

/* Returns the earlier of two times. */
static uint64_t earlier(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/*
 * Fills in what to wait for. Connections that are over their deadline are dropped, and commands
 * killed. Returns the time of the next deadline.
 */
static uint64_t serve_prepare(struct server *server, uint64_t now, struct pollfd poll[POLLED])
{
	uint64_t first = server->next_tick_ns;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		bool sends = connection->answer && !connection->is_answered;

		if (connection->socket >= 0 && connection->deadline_ns <= now)
			serve_drop(server, connection);
		else if (connection->socket >= 0)
			first = earlier(first, connection->deadline_ns);
		poll[i] =
		    (struct pollfd){.fd = connection->socket, .events = sends ? POLLOUT : POLLIN};
	}
	for (int i = 0; i < CHILDREN; i++) {
		struct command *command = &server->command[i];

		if (command->process && command->deadline_ns <= now) {
			kill(command->process, SIGKILL);
			command->deadline_ns = UINT64_MAX;
		}
		if (command->process)
			first = earlier(first, command->deadline_ns);
		poll[CONNECTIONS + i] = (struct pollfd){
		    .fd = command->process ? command->output : -1, .events = POLLIN};
	}
	poll[POLLED - 1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
	return first;
}

static void serve_ready(struct server *server, const struct pollfd ready[POLLED])
{
	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];

		if (ready[i].fd < 0 || !ready[i].revents)
			continue;
		if (ready[i].events & POLLOUT)
			transmit(server, connection);
		else
			serve_receive(server, connection);
	}
	for (int i = 0; i < CHILDREN; i++)
		if (ready[CONNECTIONS + i].fd >= 0 && ready[CONNECTIONS + i].revents)
			command_read(&server->command[i]);
	if (ready[POLLED - 1].revents)
		serve_accept_all(server);
}

/* Calls the site's tick() where it is time. */
static uint64_t tick(struct server *server)
{
	uint64_t now = clock_now();

	if (now >= server->next_tick_ns) {
		server->site.tick(server->site.cookie);
		server->next_tick_ns = now + server->site.tick_ns;
	}
	return now;
}

void serve(int listener, const struct serve_site *site)
{
	struct server *server = allocate(sizeof *server);

	*server = (struct server){
	    .site = *site, .listener = listener, .next_tick_ns = site->tick ? 0 : UINT64_MAX};
	for (int i = 0; i < CONNECTIONS; i++)
		server->connection[i].socket = -1;
	for (;;) {
		struct pollfd ready[POLLED];
		uint64_t now = tick(server), first = serve_prepare(server, now, ready);
		int timeout = first == UINT64_MAX ? -1
		              : first <= now      ? 0
		                                  : (int)((first - now) / 1000000) + 1;

		if (poll(ready, POLLED, timeout) < 0) {
			if (errno != EINTR)
				fail("poll: %s", strerror(errno));
			continue;
		}
		serve_ready(server, ready);
	}
}
