/* Available host memory, from /proc and the cgroup. Rules: runs inside the user's process. */
#include "core/memory/host_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config.h"

/* The start of a small file of the kernel's, terminated. False when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

static uint64_t cgroup_left(void)
{
	char text[64];
	uint64_t most, now;

	if (!read_text("/sys/fs/cgroup/memory.max", text, sizeof(text)) || text[0] == 'm')
		return UINT64_MAX; /* none, or "max" */
	most = strtoull(text, NULL, 10);
	if (!read_text("/sys/fs/cgroup/memory.current", text, sizeof(text)))
		return UINT64_MAX;
	now = strtoull(text, NULL, 10);
	return most > now ? most - now : 0;
}

uint64_t host_memory_available(void)
{
	static const char key[] = "MemAvailable:";
	char text[1024];
	uint64_t left, available = UINT64_MAX;
	const char *line;
	int cancel;

	/* No allocation is a place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	left = cgroup_left();
	if (read_text("/proc/meminfo", text, sizeof(text))) {
		line = strstr(text, key);
		if (line)
			available = strtoull(line + sizeof(key) - 1, NULL, 10) << 10;
	}
	pthread_setcancelstate(cancel, NULL);
	return available < left ? available : left;
}

uint64_t host_memory_limit(uint64_t setting, uint64_t charged)
{
	uint64_t available;

	if (setting != CONFIG_AUTO)
		return setting;
	available = host_memory_available();
	return available == UINT64_MAX ? UINT64_MAX : available / 2 + charged;
}
