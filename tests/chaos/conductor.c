/* SPDX-License-Identifier: MIT */
/*
 * chaos [--seed N] [--seconds S]: 8 processes in two jobs and in none do random operations while
 * they are stopped, killed and limited; see README.md. Status 0: all was right.
 */
#include "tests/chaos/conductor.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/chaos/sampler.h"

struct conductor conductor;

enum { TICK_MS = 10, KILLS = 40, STOPS = 25 };

static struct player {
	pid_t pid; /* 0: none lives */
	bool was_killed;
	int stopped_for;        /* ticks; 0: it runs */
	uint64_t seen, seen_ns; /* what it had done when it was last seen to do something */
} players[WORKERS];

static pid_t sampler;

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void nap_ms(int ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) != 0)
		continue;
}

static void kill_all(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (players[i].pid)
			kill(players[i].pid, SIGKILL);
}

void give_up(const char *format, ...)
{
	va_list arguments;

	kill_all();
	printf("chaos: FAILED with --seed %llu: ", (unsigned long long)board->seed);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\nchaos: logs are in %s\n", conductor.folder);
	exit(1);
}

static void print_file(const char *name)
{
	char line[400];
	FILE *file = fopen(name, "r");

	while (file && fgets(line, sizeof(line), file))
		printf("    %s: %s", name, line);
	if (file)
		fclose(file);
}

/* --- programs --- */

static void put_variable(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_variable(const char *name, const char *format, ...)
{
	char value[3000];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	setenv(name, value, 1);
}

/* In the child. */
static void output_to(const char *name, int flags)
{
	int file = open(name, O_WRONLY | O_CREAT | flags, 0600);

	if (file >= 0) {
		dup2(file, STDOUT_FILENO);
		dup2(file, STDERR_FILENO);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

pid_t start_tool(const char *output, const char *const *words)
{
	const char *arguments[16] = {"spillway"};
	char path[700];
	pid_t pid;

	for (int i = 0; i < 14 && words[i]; i++)
		arguments[i + 1] = words[i];
	snprintf(path, sizeof(path), "%s/spillway", conductor.build);
	pid = fork();
	if (pid < 0)
		give_up("fork: %s", strerror(errno));
	if (pid == 0) {
		output_to(output, O_TRUNC);
		execv(path, (char **)arguments);
		_exit(127);
	}
	return pid;
}

static void join(enum job job)
{
	const char *build = conductor.build;

	put_variable("LD_PRELOAD", "%s/lib/libspillway.so %s/lib/libspillway-alias.so", build,
	             build);
	if (job == JOB_NONE)
		return;
	put_variable("SPILLWAY_JOB", "%s", job_names[job]);
	put_variable("SPILLWAY_MEMORY", "%zuB", job == JOB_FIXED ? FIXED_LIMIT : MOVING_LIMIT);
	if (job == JOB_MOVING)
		put_variable("SPILLWAY_MEMORY_MAX", "%zuB", MOVING_MAX);
}

static void start_player(int number)
{
	char path[700], slot[16], life[24], log[32];

	snprintf(path, sizeof(path), "%s/tests/chaos/chaos_worker", conductor.build);
	snprintf(slot, sizeof(slot), "%d", number);
	snprintf(life, sizeof(life), "%llu", (unsigned long long)board->slot[number].life + 1);
	snprintf(log, sizeof(log), "worker-%d.log", number);
	players[number] = (struct player){.pid = fork(), .seen_ns = monotonic_ns()};
	if (players[number].pid < 0)
		give_up("fork: %s", strerror(errno));
	if (players[number].pid == 0) {
		output_to(log, O_APPEND);
		join(job_of(number));
		execl(path, path, slot, life, (char *)NULL);
		_exit(127);
	}
	conductor.lives++;
}

/* --- what becomes of them --- */

/* More than the limit: what each process did last, and what the tool says each has. */
static _Noreturn void tell_over(void)
{
	for (int i = 0; i < SLOTS; i++)
		if (board->slot[i].pid && strstr(board->sampler_failure, job_names[job_of(i)]))
			board_tell(&board->slot[i], i);
	for (enum job job = JOB_FIXED; job <= JOB_MOVING; job++) {
		const char *const words[] = {"stat", job_names[job], "--json", NULL};

		if (!strstr(board->sampler_failure, job_names[job]))
			continue;
		waitpid(start_tool("stat.log", words), NULL, 0);
		print_file("stat.log");
	}
	give_up("%s", board->sampler_failure);
}

static void check_failures(void)
{
	bool failed = false;

	for (int i = 0; i < SLOTS; i++) {
		if (!board->slot[i].has_failed)
			continue;
		board_tell(&board->slot[i], i);
		failed = true;
	}
	if (failed)
		give_up("a process found what it did not expect");
	if (board->sampler_failed)
		tell_over();
}

static void check_end(int number, int status)
{
	char log[32];

	if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
	    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && players[number].was_killed))
		return;
	check_failures();
	snprintf(log, sizeof(log), "worker-%d.log", number);
	print_file(log);
	board_tell(&board->slot[number], number);
	give_up("process %d ended with status %#x", number, status);
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == sampler)
			give_up("the sampler ended with status %#x", status);
		if (settings_reaped(pid, status))
			continue;
		for (int i = 0; i < WORKERS; i++) {
			if (players[i].pid != pid)
				continue;
			check_end(i, status);
			players[i].pid = 0;
		}
	}
}

/* Counted by its own time: who is stopped or paused does nothing, rightly. */
static void check_hang(int number)
{
	const struct slot *slot = &board->slot[number];
	struct player *player = &players[number];
	uint64_t done = slot->operations + board->slot[number + WORKERS].operations + slot->life;

	if (done != player->seen || player->stopped_for)
		*player = (struct player){player->pid, player->was_killed, player->stopped_for,
		                          done, monotonic_ns()};
	if (!player->pid || monotonic_ns() - player->seen_ns < PATIENCE_S * 1000000000ull)
		return;
	board_tell(slot, number);
	give_up("process %d (pid %d) has done nothing for %d s", number, player->pid, PATIENCE_S);
}

/* --- what is done to them --- */

static void disturb(int number, struct dice *dice)
{
	struct player *player = &players[number];
	bool is_killed = one_in(dice, KILLS * WORKERS), is_stopped = one_in(dice, STOPS * WORKERS);
	int ticks = 1 + (int)below(dice, one_in(dice, 4) ? 30 : 4);

	if (!player->pid)
		return;
	if (player->stopped_for && --player->stopped_for == 0)
		kill(player->pid, SIGCONT);
	if (is_killed) {
		player->was_killed = true;
		kill(player->pid, SIGKILL);
		conductor.kills++;
	} else if (is_stopped && !player->stopped_for) {
		player->stopped_for = ticks;
		kill(player->pid, SIGSTOP);
		conductor.stops++;
	}
}

static void play(uint64_t seconds)
{
	uint64_t until = monotonic_ns() + seconds * 1000000000ull;

	for (uint64_t tick = 1; monotonic_ns() < until; tick++) {
		struct dice dice = dice_of(board->seed, WORKERS, 0, tick);

		for (int i = 0; i < WORKERS; i++) {
			if (!players[i].pid)
				start_player(i);
			disturb(i, &dice);
			check_hang(i);
		}
		settings_tick(&dice);
		nap_ms(TICK_MS);
		reap();
		check_failures();
	}
}

/* Half of them are killed as they are, the others give back what they have. */
static void end_players(void)
{
	struct dice dice = dice_of(board->seed, WORKERS, 1, 0);
	int left;

	settings_end();
	board->is_ending = true;
	for (int i = 0; i < WORKERS; i++) {
		players[i].stopped_for = 0;
		players[i].was_killed |= players[i].pid && one_in(&dice, 2);
		players[i].seen_ns = monotonic_ns();
		if (players[i].pid)
			kill(players[i].pid, players[i].was_killed ? SIGKILL : SIGCONT);
	}
	do {
		left = 0;
		nap_ms(TICK_MS);
		reap();
		check_failures();
		for (int i = 0; i < WORKERS; i++) {
			left += players[i].pid != 0;
			check_hang(i);
		}
	} while (left > 0);
}

void run_one(void)
{
	pid_t pid;
	int status;

	start_player(WORKERS - 1);
	pid = players[WORKERS - 1].pid;
	players[WORKERS - 1].pid = 0;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		give_up("the last process ended with status %#x", status);
}

static void tell(void)
{
	uint64_t operations = 0, verified = 0, refused = 0;

	for (int i = 0; i < SLOTS; i++) {
		operations += board->slot[i].operations;
		verified += board->slot[i].verified;
		refused += board->slot[i].refused;
	}
	printf(
	    "chaos: seed=%llu lives=%llu operations=%llu verified_mib=%llu refused=%llu kills=%llu "
	    "stops=%llu sets=%llu sets_held=%llu tools_killed=%llu samples=%llu "
	    "peak_of_fixed=%llu over_fixed=%llu over_moving=%llu\n",
	    (unsigned long long)board->seed, (unsigned long long)conductor.lives,
	    (unsigned long long)operations, (unsigned long long)(verified >> 20),
	    (unsigned long long)refused, (unsigned long long)conductor.kills,
	    (unsigned long long)conductor.stops, (unsigned long long)conductor.sets,
	    (unsigned long long)conductor.sets_held, (unsigned long long)conductor.tools_killed,
	    (unsigned long long)board->sampled[JOB_FIXED].samples,
	    (unsigned long long)board->sampled[JOB_FIXED].peak,
	    (unsigned long long)board->sampled[JOB_FIXED].over,
	    (unsigned long long)board->sampled[JOB_MOVING].over);
	if (operations == 0 || board->sampled[JOB_FIXED].samples == 0 ||
	    board->sampled[JOB_FIXED].peak == 0)
		give_up("nothing was done, or nothing was seen");
}

/* --- the surroundings --- */

static void find_build(void)
{
	ssize_t length = readlink("/proc/self/exe", conductor.build, sizeof(conductor.build) - 1);

	for (int up = 0; length > 0 && up < 3; up++)
		*strrchr(conductor.build, '/') = '\0';
}

static void make_surroundings(void)
{
	const char *temporary = getenv("TMPDIR");
	const char *options = getenv("ASAN_OPTIONS");

	snprintf(conductor.folder, sizeof(conductor.folder), "%s/chaos.XXXXXX",
	         temporary ? temporary : "/tmp");
	if (!mkdtemp(conductor.folder) || chdir(conductor.folder) != 0 ||
	    mkdir("state", 0700) != 0 || mkdir("softgpu", 0700) != 0) {
		perror(conductor.folder);
		exit(2);
	}
	put_variable("SPILLWAY_STATE_DIR", "%s/state", conductor.folder);
	put_variable("SPILLWAY_NODE_DIR", "%s/node", conductor.folder);
	put_variable("SOFTGPU_STATE_DIR", "%s/softgpu", conductor.folder);
	put_variable("SOFTGPU_CONTEXT_MEMORY", "%zu", CONTEXT_MEMORY);
	put_variable("SOFTGPU_MEMORY", "384M");
	put_variable("SOFTGPU_QUIET", "1");
	put_variable("LD_LIBRARY_PATH", "%s/softgpu", conductor.build);
	/*
	 * Processes end with what they have, threads on stacks that they left by being cancelled;
	 * the shim is preloaded.
	 */
	put_variable("ASAN_OPTIONS",
	             "%s%sverify_asan_link_order=0:detect_leaks=0:use_sigaltstack=0",
	             options ? options : "", options ? ":" : "");
	options = getenv("TSAN_OPTIONS");
	put_variable("TSAN_OPTIONS", "%s%sreport_thread_leaks=0", options ? options : "",
	             options ? ":" : "");
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (!*text || *end) {
		fprintf(stderr, "chaos: '%s': expected a number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seed", required_argument, NULL, 's'}, {"seconds", required_argument, NULL, 't'}, {0}};
	uint64_t seed = monotonic_ns() % 1000000007, seconds = 20;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's') {
			seed = number(optarg);
		} else if (option == 't') {
			seconds = number(optarg);
		} else {
			fputs("usage: chaos [--seed N] [--seconds S]\n", stderr);
			return 2;
		}
	}
	find_build();
	make_surroundings();
	board_open(true);
	board->seed = seed;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("chaos: --seed %llu --seconds %llu\n", (unsigned long long)seed,
	       (unsigned long long)seconds);
	settings_begin();
	sampler = sampler_start();
	play(seconds);
	end_players();
	check_after();
	kill(sampler, SIGKILL);
	waitpid(sampler, NULL, 0);
	check_failures();
	tell();
	if (chdir("/") == 0 && fork() == 0)
		execlp("rm", "rm", "-rf", conductor.folder, (char *)NULL);
	wait(NULL);
	return 0;
}
