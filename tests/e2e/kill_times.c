/* SPDX-License-Identifier: MIT */
/*
 * kill_times KILLS LOAD FOLDER PROGRAM NAME=PRELOAD...: how long a killed process takes to die, by
 * the libraries that are preloaded into it.
 *
 * A round starts VICTIMS processes of each kind beside each other, the kinds by turns. Once each
 * has made its file FOLDER/ready-N they are killed one after the other, and each is waited for.
 * LOAD more processes compute meanwhile. Prints of each kind: "NAME kills=N median_ms=X p99_ms=X
 * longest_ms=X". Exit status 1 where a victim did not begin.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VICTIMS = 10, KINDS = 4, KILLS_MAX = 100000, PATIENCE_S = 300, LIVES = 4 };

struct kind {
	const char *name, *preload;
	uint64_t *took_ns;
	int kills;
};

static const char *folder, *program;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static pid_t start(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0) {
		perror("fork");
		exit(1);
	}
	if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
		_exit(1);
	return child;
}

/* Each round has jobs of its own, so that none waits for the memory of one that was killed. */
static pid_t start_victim(const struct kind *kind, int round, int number)
{
	char ready[512], until[512], job[64];
	pid_t victim = start();

	if (victim != 0)
		return victim;
	snprintf(ready, sizeof ready, "%s/ready-%d", folder, number);
	snprintf(until, sizeof until, "%s/never", folder);
	snprintf(job, sizeof job, "kill-%s-%d-%d", kind->name, round % LIVES, number);
	setenv("SPILLWAY_JOB", job, 1);
	if (*kind->preload)
		setenv("LD_PRELOAD", kind->preload, 1);
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execl(program, program, "--mib", "4", "--count", "4", "--ready", ready, "--until", until,
	      (char *)NULL);
	_exit(1);
}

static void start_load(int count)
{
	for (int i = 0; i < count; i++)
		if (start() == 0)
			for (;;)
				__asm__ volatile("");
}

static void wait_until_ready(const struct kind *kind, int number)
{
	uint64_t end = now_ns() + PATIENCE_S * 1000000000ull;
	char ready[512];

	snprintf(ready, sizeof ready, "%s/ready-%d", folder, number);
	while (access(ready, F_OK) != 0) {
		if (now_ns() > end) {
			fprintf(stderr, "%s: a process does not begin\n", kind->name);
			exit(1);
		}
		usleep(5000);
	}
	unlink(ready);
}

static void kill_one(struct kind *kind, pid_t victim)
{
	uint64_t began = now_ns();
	int status = 0;

	kill(victim, SIGKILL);
	while (waitpid(victim, &status, 0) < 0 && errno == EINTR)
		;
	kind->took_ns[kind->kills++] = now_ns() - began;
	if (!WIFSIGNALED(status)) {
		fprintf(stderr, "%s: a process ended by itself\n", kind->name);
		exit(1);
	}
}

static void play_round(struct kind *kind, int round)
{
	pid_t victim[VICTIMS];

	for (int i = 0; i < VICTIMS; i++)
		victim[i] = start_victim(kind, round, i);
	for (int i = 0; i < VICTIMS; i++)
		wait_until_ready(kind, i);
	for (int i = 0; i < VICTIMS; i++)
		kill_one(kind, victim[i]);
}

static int ascending(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

static double milliseconds_of(const struct kind *kind, int kill)
{
	return (double)kind->took_ns[kill] / 1e6;
}

static void say(struct kind *kind)
{
	qsort(kind->took_ns, (size_t)kind->kills, sizeof *kind->took_ns, ascending);
	printf("%s kills=%d median_ms=%.1f p99_ms=%.1f longest_ms=%.0f\n", kind->name, kind->kills,
	       milliseconds_of(kind, kind->kills / 2),
	       milliseconds_of(kind, kind->kills * 99 / 100),
	       milliseconds_of(kind, kind->kills - 1));
}

int main(int argc, char **argv)
{
	static struct kind kinds[KINDS];
	int kills = argc > 5 ? atoi(argv[1]) : 0, count = 0;

	if (kills <= 0 || kills > KILLS_MAX || argc - 5 > KINDS) {
		fputs("usage: kill_times KILLS LOAD FOLDER PROGRAM NAME=PRELOAD...\n", stderr);
		return 2;
	}
	folder = argv[3];
	program = argv[4];
	for (int i = 5; i < argc; i++, count++) {
		char *preload = strchr(argv[i], '=');

		if (!preload)
			return 2;
		*preload = '\0';
		kinds[count] = (struct kind){argv[i], preload + 1,
		                             calloc((size_t)kills + VICTIMS, sizeof(uint64_t)), 0};
	}
	start_load(atoi(argv[2]));
	for (int round = 0; kinds[0].kills < kills; round++)
		for (int i = 0; i < count; i++)
			play_round(&kinds[i], round);
	for (int i = 0; i < count; i++)
		say(&kinds[i]);
	return 0;
}
