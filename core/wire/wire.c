/* SPDX-License-Identifier: MIT */
/*
 * Sockets and messages of shared memory. Rules: runs inside the user's process; nothing read is
 * believed.
 */
#include "core/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/descriptor.h"
#include "core/base/file_status.h"
#include "core/state/directory.h"
#include "core/state/listing.h"

#define RESOURCES_MAGIC "SPILRSRC"

struct wire_token resources_token(uint64_t segment_token, uint64_t started_ns)
{
	struct wire_token token;

	memcpy(token.bytes, &segment_token, 8);
	memcpy(token.bytes + 8, &started_ns, 8);
	return token;
}

struct resources_reply resources_reply_new(void)
{
	struct resources_reply reply = {.version = RESOURCES_VERSION};

	memcpy(reply.magic, RESOURCES_MAGIC, sizeof(reply.magic));
	return reply;
}

enum { BACKLOG = 128, STALE_SECONDS = 10, NAME_SIZE = 48, RETRY_NS = 5000000 };

bool wire_handle_is_ours(const void *bytes)
{
	return memcmp(bytes, WIRE_MAGIC, sizeof(WIRE_MAGIC) - 1) == 0;
}

uint64_t wire_deadline(uint64_t patience_ns)
{
	return clock_now() + patience_ns;
}

static int wire_milliseconds_left(uint64_t deadline)
{
	uint64_t now = clock_now();

	return deadline <= now ? 0 : (int)((deadline - now) / 1000000u + 1);
}

/* Waits until the descriptor is ready. Returns 0, or -EAGAIN when the time is over. */
static int wait_until_ready(int fd, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd poller = {.fd = fd, .events = events};
		int left = deadline ? wire_milliseconds_left(deadline) : 0;
		int ready = left ? poll(&poller, 1, left) : 0;

		if (ready > 0)
			return 0;
		if (!left || (ready < 0 && errno != EINTR))
			return -EAGAIN;
	}
}

/* --- names --- */

int wire_token_make(struct wire_token *token)
{
	ssize_t length;

	do
		length = getrandom(token->bytes, sizeof(token->bytes), 0);
	while (length < 0 && errno == EINTR);
	return length == (ssize_t)sizeof(token->bytes) ? 0 : -EIO;
}

static void wire_name_of(const struct wire_token *token, char name[NAME_SIZE])
{
	char *end = name + sprintf(name, "share-");

	for (size_t i = 0; i < sizeof(token->bytes); i++)
		end += sprintf(end, "%02x", token->bytes[i]);
	strcpy(end, ".socket");
}

void wire_socket_path(const struct wire_token *token, char *path, size_t size)
{
	char directory[PATH_MAX], name[NAME_SIZE];
	int length;

	wire_name_of(token, name);
	length = snprintf(path, size, "%s/%s", directory_path(directory, sizeof(directory)), name);
	if (length < 0 || (size_t)length >= size)
		path[0] = '\0';
}

static bool wire_is_name(const char *name)
{
	return strlen(name) ==
	           strlen("share-") + 2 * sizeof(struct wire_token) + strlen(".socket") &&
	       strncmp(name, "share-", strlen("share-")) == 0 &&
	       strcmp(name + strlen(name) - strlen(".socket"), ".socket") == 0;
}

/*
 * Fills in a socket's address. A state directory's path may be longer than a socket's; it is
 * reached by its descriptor then.
 */
static int wire_address_of(int directory, const char *name, struct sockaddr_un *address)
{
	char path[PATH_MAX];
	int length;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	directory_path(path, sizeof(path));
	if (strlen(path) + 1 + strlen(name) < sizeof(address->sun_path))
		length =
		    snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", path, name);
	else
		length = snprintf(address->sun_path, sizeof(address->sun_path),
		                  "/proc/self/fd/%d/%s", directory, name);
	return length > 0 && (size_t)length < sizeof(address->sun_path) ? 0 : -ENAMETOOLONG;
}

static int new_socket(void)
{
	int fd = descriptor_above_stdio(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	return fd < 0 ? -errno : fd;
}

static bool is_of_our_user(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* --- the listener --- */

static int bind_in(int directory, const char *name)
{
	struct sockaddr_un address;
	int error = wire_address_of(directory, name, &address);
	int fd = error ? error : new_socket();

	if (fd < 0)
		return fd;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		error = -errno; /* the name may be another's */
		close(fd);
		return error;
	}
	/* The user's umask may take away even our own right to connect. */
	if (fchmodat(directory, name, 0600, 0) != 0 || listen(fd, BACKLOG) != 0) {
		error = -errno;
		unlinkat(directory, name, 0);
		close(fd);
		return error;
	}
	return fd;
}

int wire_listen(const struct wire_token *token, char *message, size_t size)
{
	char name[NAME_SIZE];
	int directory = directory_open(1, message, size), fd;

	if (directory < 0)
		return directory;
	wire_name_of(token, name);
	fd = bind_in(directory, name);
	if (fd < 0)
		snprintf(message, size, "%s in the state directory: %s", name, strerror(-fd));
	close(directory);
	return fd;
}

bool wire_is_socket_of(int fd, const struct wire_token *token)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address);
	char name[NAME_SIZE];
	const char *slash;

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
	    address.sun_family != AF_UNIX)
		return false;
	address.sun_path[sizeof(address.sun_path) - 1] = '\0';
	slash = strrchr(address.sun_path, '/');
	wire_name_of(token, name);
	return slash && strcmp(slash + 1, name) == 0;
}

void wire_unlink(const struct wire_token *token)
{
	char name[NAME_SIZE];
	int directory = directory_open(0, NULL, 0);

	if (directory < 0)
		return;
	wire_name_of(token, name);
	unlinkat(directory, name, 0);
	close(directory);
}

int wire_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (!is_of_our_user(fd)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* --- the connecting process --- */

static int connect_in(int directory, const char *name, uint64_t deadline)
{
	struct sockaddr_un address;
	int error = wire_address_of(directory, name, &address);
	int fd = error ? error : new_socket();

	if (fd < 0)
		return fd;
	while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		error = -errno;
		/* EAGAIN: too many connections wait to be accepted. */
		if ((error != -EAGAIN && error != -EINTR) || !deadline ||
		    !wire_milliseconds_left(deadline)) {
			close(fd);
			return error;
		}
		deadline_sleep(RETRY_NS);
	}
	if (!is_of_our_user(fd)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int wire_connect(const struct wire_token *token, uint64_t deadline)
{
	char name[NAME_SIZE];
	int directory = directory_open(0, NULL, 0), fd;

	if (directory < 0)
		return directory;
	wire_name_of(token, name);
	fd = connect_in(directory, name, deadline);
	close(directory);
	return fd;
}

/*
 * Removes a stale socket. Between its binding and its listening a socket refuses as well: only an
 * old one is stale.
 */
static void remove_if_stale(int directory, const char *name)
{
	struct stat found;
	char path[64 + NAME_SIZE];
	int fd = connect_in(directory, name, 0);

	if (fd >= 0)
		close(fd);
	if (fd != -ECONNREFUSED)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", directory, name);
	if (file_status(path, &found) == 0 && file_status_age(&found) > STALE_SECONDS)
		unlinkat(directory, name, 0);
}

static bool sweep_one(void *cookie, int directory, const char *name)
{
	(void)cookie;
	if (wire_is_name(name))
		remove_if_stale(directory, name);
	return true;
}

void wire_sweep(void)
{
	int directory = directory_open(0, NULL, 0);

	if (directory < 0)
		return;
	(void)listing_read(directory, sweep_one, NULL);
	close(directory);
}

/* --- messages --- */

union control {
	char bytes[CMSG_SPACE(sizeof(int) * WIRE_BATCH)];
	struct cmsghdr align;
};

int wire_send(int fd, const void *message, size_t size, const int *descriptors, size_t count,
              uint64_t deadline)
{
	union control control = {.bytes = {0}};
	struct iovec data = {.iov_base = (void *)(uintptr_t)message, .iov_len = size};
	struct msghdr packet = {.msg_iov = &data, .msg_iovlen = 1};

	if (count > WIRE_BATCH)
		return -EINVAL;
	if (count > 0) {
		struct cmsghdr *header = &control.align;

		packet.msg_control = control.bytes;
		packet.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
	}
	for (;;) {
		if (sendmsg(fd, &packet, MSG_NOSIGNAL) == (ssize_t)size)
			return 0;
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
		if (errno == EAGAIN && wait_until_ready(fd, POLLOUT, deadline) != 0)
			return -EAGAIN;
	}
}

static size_t take_descriptors(struct msghdr *packet, int *descriptors, size_t room)
{
	size_t count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(packet); header;
	     header = CMSG_NXTHDR(packet, header)) {
		size_t length = header->cmsg_len - CMSG_LEN(0);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= length; at += sizeof(int)) {
			int descriptor;

			memcpy(&descriptor, CMSG_DATA(header) + at, sizeof(descriptor));
			if (count < room)
				descriptors[count++] = descriptor;
			else
				close(descriptor);
		}
	}
	return count;
}

int wire_receive(int fd, void *message, size_t size, int *descriptors, size_t room, size_t *count,
                 uint64_t deadline)
{
	union control control = {.bytes = {0}};
	struct iovec data = {.iov_base = message, .iov_len = size};
	struct msghdr packet = {.msg_iov = &data,
	                        .msg_iovlen = 1,
	                        .msg_control = control.bytes,
	                        .msg_controllen = sizeof(control.bytes)};
	ssize_t length;
	size_t taken;

	while ((length = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC)) < 0) {
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
		if (errno == EAGAIN && wait_until_ready(fd, POLLIN, deadline) != 0)
			return -EAGAIN;
	}
	taken = take_descriptors(&packet, descriptors, room);
	if (length != (ssize_t)size || packet.msg_flags & MSG_TRUNC) {
		while (taken > 0)
			close(descriptors[--taken]);
		return length == 0 ? -EPIPE : -EPROTO;
	}
	*count = taken;
	return 0;
}
