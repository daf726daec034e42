/* SPDX-License-Identifier: MIT */
/*
 * Tests of the user at the other end of a socket. Only our own user gets an answer, even where the
 * directory would let another one in.
 */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/wire/wire.h"

enum { NOBODY = 65534, SKIPPED = 77 };

static struct wire_token token;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void setup(void)
{
	char path[512];

	state_directory_make();
	ck_assert_int_eq(wire_token_make(&token), 0);
	wire_socket_path(&token, path, sizeof(path));
	ck_assert_str_ne(path, "");
	/* From within he needs no way there. */
	ck_assert_int_eq(chdir(state_directory), 0);
	strcpy(address.sun_path, strrchr(path, '/') + 1);
}

/* Anyone may do with the directory, and the socket if there is one, what he likes. */
static void open_to_all(void)
{
	ck_assert_int_eq(chmod(state_directory, 0777), 0);
	if (chmod(address.sun_path, 0666) != 0)
		ck_assert_int_eq(errno, ENOENT);
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static void become(uid_t user)
{
	if (setresuid(user, user, user) != 0)
		_exit(1);
}

static void connect_as(void *user)
{
	become(*(const uid_t *)user);
	if (connect(new_socket(), (const struct sockaddr *)&address, sizeof(address)) != 0)
		_exit(1);
}

static void listen_as(void *user)
{
	int fd = new_socket();

	become(*(const uid_t *)user);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    chmod(address.sun_path, 0666) != 0 || listen(fd, 1) != 0)
		_exit(1);
}

/* Accepts him. Returns what comes of it. */
static int accepted(uid_t user)
{
	char message[512];
	int listener = wire_listen(&token, message, sizeof(message)), fd;
	pid_t child;

	ck_assert_msg(listener >= 0, "%s", message);
	open_to_all();
	child = child_start(connect_as, &user);
	ck_assert_int_eq(poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, -1), 1);
	fd = wire_accept(listener);
	child_kill(child);
	close(listener);
	return fd;
}

/* Connects to him. Returns what comes of it. */
static int connected(uid_t user)
{
	pid_t child;
	int fd;

	open_to_all();
	child = child_start(listen_as, &user);
	ck_assert_int_eq(chmod(state_directory, 0700), 0);
	fd = wire_connect(&token, 0);
	child_kill(child);
	return fd;
}

START_TEST(who_connects_is_our_user)
{
	ck_assert_int_ge(accepted(geteuid()), 0);
	ck_assert_int_eq(chmod(state_directory, 0700), 0);
	wire_unlink(&token);
	ck_assert_int_eq(accepted(NOBODY), -EPERM);
}
END_TEST

START_TEST(who_listens_is_our_user)
{
	ck_assert_int_ge(connected(geteuid()), 0);
	wire_unlink(&token);
	ck_assert_int_eq(connected(NOBODY), -EPERM);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ipc_peer");
	TCase *tests = tcase_create("ipc_peer");

	if (geteuid() != 0) {
		puts("only root can be another user");
		return SKIPPED;
	}
	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_add_test(tests, who_connects_is_our_user);
	tcase_add_test(tests, who_listens_is_our_user);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
