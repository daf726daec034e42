/* SPDX-License-Identifier: MIT */
#include "tests/chaos/board.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const job_names[JOBS] = {"fixed", "moving", "none"};
struct board *board;

enum job job_of(int slot)
{
	static const enum job jobs[WORKERS] = {JOB_FIXED,  JOB_FIXED,  JOB_FIXED, JOB_MOVING,
	                                       JOB_MOVING, JOB_MOVING, JOB_NONE,  JOB_NONE};

	return jobs[slot % WORKERS];
}

void board_open(bool make)
{
	int file = open("board", O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0600);

	if (file < 0 || (make && posix_fallocate(file, 0, sizeof(*board)) != 0)) {
		perror("chaos: board");
		exit(2);
	}
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (board == MAP_FAILED) {
		perror("chaos: board");
		exit(2);
	}
	close(file);
}

void board_tell(const struct slot *slot, int number)
{
	uint64_t last = slot->step;

	printf("seed %llu, process %d of job %s, life %llu, step %llu (pid %d): %s\n",
	       (unsigned long long)board->seed, number, job_names[job_of(number)],
	       (unsigned long long)slot->life, (unsigned long long)last, slot->pid, slot->failure);
	for (uint64_t step = last > JOURNAL - 1 ? last - (JOURNAL - 1) : 0; step <= last; step++)
		printf("    %s\n", slot->journal[step % JOURNAL]);
}
