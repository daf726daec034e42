/* SPDX-License-Identifier: MIT */
/*
 * A page served over HTTP, by one thread and poll().
 *
 * Whoever connects is a stranger: a request has at most REQUEST_MAX bytes and a connection
 * CONNECTION_NS from beginning to end. Who has sent a request is answered at once, however many say
 * nothing: where there are CONNECTIONS already, or no more descriptors, the one that has been
 * silent for longest makes room for the next. Every answer ends its connection.
 *
 * libmicrohttpd was considered in place of it: some 200 lines here would go. But it brings GnuTLS
 * into a process that may be root's, the tool would no longer run wherever it is copied to, and at
 * its limit of connections it waits until one ends, so that strangers who say nothing would keep
 * Prometheus out, as they cannot here. Two paths, two methods and no body are less than its set-up.
 */
#include "tools/formats/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "tools/view/arguments.h"
#include "tools/view/tool.h"

enum { CONNECTIONS = 128, REQUEST_MAX = 4096, BACKLOG = 256, SHORT_NS = 100000000 };
#define CONNECTION_NS 5000000000ull
#define LINGER_NS     1000000000ull

struct connection {
	int socket; /* -1: none */
	uint64_t deadline_ns;
	uint64_t number; /* the later it came the greater */
	size_t received;
	char request[REQUEST_MAX + 1];
	bool is_head; /* only the answer's headers are wanted */
	char *answer; /* NULL: the request is not complete yet */
	size_t size, sent;
	bool is_answered; /* what still comes is read and thrown away until the other side ends */
};

struct server {
	void (*page)(FILE *out, void *cookie);
	void *cookie;
	int listener;
	uint64_t accepted;
	struct connection connection[CONNECTIONS];
};

/* Resolves an address in numbers, so that no name service is asked; NULL when it is none. */
static struct addrinfo *resolve(const char *address)
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
	struct addrinfo *found = resolve(address);

	if (!found)
		usage_error("--listen '%s': expected ADDRESS:PORT in numbers, such as "
		            "127.0.0.1:9435 or [::1]:9435",
		            address);
	freeaddrinfo(found);
}

/* Listens on an address. With port 0 the kernel chooses one; it is said. */
static int listen_on(const char *address)
{
	struct addrinfo *at = resolve(address);
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
	if (getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
	                NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		complain(strchr(host, ':') ? "serving http://[%s]:%s/metrics"
		                           : "serving http://%s:%s/metrics",
		         host, port);
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

static void answer(struct connection *connection, const char *status, const char *header,
                   const char *body, size_t size)
{
	FILE *out = open_memory(&connection->answer, &connection->size);

	fprintf(out, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status,
	        size, header);
	if (!connection->is_head)
		fwrite(body, 1, size, out);
	if (fclose(out) != 0)
		fail("out of memory");
}

static void answer_error(struct connection *connection, const char *status, const char *header)
{
	char *body = text("%s\n", status);
	char *headers = text("Content-Type: text/plain; charset=utf-8\r\n%s", header);

	answer(connection, status, headers, body, strlen(body));
	free(headers);
	free(body);
}

static void answer_page(struct server *server, struct connection *connection)
{
	char *page = NULL;
	size_t size;
	FILE *out = open_memory(&page, &size);

	server->page(out, server->cookie);
	if (fclose(out) != 0)
		fail("out of memory");
	answer(connection, "200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
	       page, size);
	free(page);
}

/* What a person finds who looks where the metrics are. */
static const char entrance[] =
    "<!DOCTYPE html><title>Spillway</title><a href=\"metrics\">Spillway's metrics</a>\n";

/*
 * Decides what to answer to "GET /metrics?x HTTP/1.1": method, target without its query, version.
 */
static void decide(struct server *server, struct connection *connection)
{
	char *line = connection->request;
	char *target, *version;

	line[strcspn(line, "\r\n")] = '\0';
	target = strchr(line, ' ');
	version = target ? strchr(target + 1, ' ') : NULL;
	if (!version || strncmp(version + 1, "HTTP/1.", 7) != 0 || strchr(version + 1, ' ')) {
		answer_error(connection, "400 Bad Request", "");
		return;
	}
	*target++ = *version = '\0';
	target[strcspn(target, "?")] = '\0';
	connection->is_head = strcmp(line, "HEAD") == 0;
	if (strcmp(target, "/metrics") != 0 && strcmp(target, "/") != 0)
		answer_error(connection, "404 Not Found", "");
	else if (strcmp(line, "GET") != 0 && !connection->is_head)
		answer_error(connection, "405 Method Not Allowed", "Allow: GET, HEAD\r\n");
	else if (strcmp(target, "/") == 0)
		answer(connection, "200 OK", "Content-Type: text/html; charset=utf-8\r\n", entrance,
		       strlen(entrance));
	else
		answer_page(server, connection);
}

static void drop(struct connection *connection)
{
	close(connection->socket);
	free(connection->answer);
	*connection = (struct connection){.socket = -1};
}

static bool is_complete(const char *request)
{
	return strstr(request, "\r\n\r\n") || strstr(request, "\n\n");
}

static void receive(struct server *server, struct connection *connection)
{
	char rest[1024];
	char *to = connection->answer ? rest : connection->request + connection->received;
	size_t room = connection->answer ? sizeof rest : REQUEST_MAX - connection->received;
	ssize_t length = recv(connection->socket, to, room, 0);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0) {
		drop(connection);
		return;
	}
	if (connection->answer)
		return;
	connection->received += (size_t)length;
	connection->request[connection->received] = '\0';
	if (is_complete(connection->request))
		decide(server, connection);
	else if (connection->received == REQUEST_MAX)
		answer_error(connection, "431 Request Header Fields Too Large", "");
}

/*
 * Transmits the answer. Then we say that we have ended, and wait until the other side does: closing
 * while something of theirs is unread would reset the connection and take our answer with it.
 */
static void transmit(struct connection *connection)
{
	ssize_t length = send(connection->socket, connection->answer + connection->sent,
	                      connection->size - connection->sent, MSG_NOSIGNAL);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length < 0) {
		drop(connection);
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
 * Returns how much is lost with it, from the least: nobody asked, the answer is on its way to who
 * does not end, somebody waits for an answer.
 */
static int worth(const struct connection *connection)
{
	return !connection->answer ? 0 : connection->is_answered ? 1 : 2;
}

/*
 * Returns a place that is free, or was that of the connection that is worth least, of those the
 * oldest.
 */
static struct connection *make_room(struct server *server, bool free_will_do)
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
		drop(least);
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
		if (!make_room(server, false))
			deadline_sleep(SHORT_NS);
		return false;
	}
	connection = make_room(server, true);
	connection->socket = socket;
	connection->number = server->accepted++;
	connection->deadline_ns = clock_now() + CONNECTION_NS;
	receive(server, connection);
	return true;
}

/* Accepts as many as there are places, so that others have their turn. */
static void accept_all(struct server *server)
{
	int count = 0;

	while (count < CONNECTIONS && accept_one(server))
		count++;
}

/* Milliseconds until the first deadline; those that are over it are dropped. */
static int serve_connections(struct server *server, struct pollfd poll[CONNECTIONS + 1])
{
	uint64_t now = clock_now(), first = UINT64_MAX;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		bool sends = connection->answer && !connection->is_answered;

		if (connection->socket >= 0 && connection->deadline_ns <= now)
			drop(connection);
		else if (connection->socket >= 0 && connection->deadline_ns < first)
			first = connection->deadline_ns;
		poll[i] =
		    (struct pollfd){.fd = connection->socket, .events = sends ? POLLOUT : POLLIN};
	}
	poll[CONNECTIONS] = (struct pollfd){.fd = server->listener, .events = POLLIN};
	return first == UINT64_MAX ? -1 : (int)((first - now) / 1000000) + 1;
}

void serve(const char *address, void (*page)(FILE *out, void *cookie), void *cookie)
{
	struct server *server = allocate(sizeof *server);

	*server = (struct server){.page = page, .cookie = cookie};
	for (int i = 0; i < CONNECTIONS; i++)
		server->connection[i].socket = -1;
	server->listener = listen_on(address);
	for (;;) {
		struct pollfd ready[CONNECTIONS + 1];
		int timeout = serve_connections(server, ready);

		if (poll(ready, CONNECTIONS + 1, timeout) < 0 && errno != EINTR)
			fail("poll: %s", strerror(errno));
		for (int i = 0; i < CONNECTIONS; i++) {
			struct connection *connection = &server->connection[i];

			if (ready[i].fd < 0 || !ready[i].revents)
				continue;
			if (ready[i].events & POLLOUT)
				transmit(connection);
			else
				receive(server, connection);
		}
		if (ready[CONNECTIONS].revents)
			accept_all(server);
	}
}
