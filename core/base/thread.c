/* Threads of ours. Rules: runs inside the user's process; its signals are its own. */
#include "core/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include "core/base/file_status.h"

enum { STACK = 1 << 20 }; /* drivers take more than they say */

int thread_start(void *(*function)(void *cookie))
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, function, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

int thread_count(void)
{
	enum { OWN_LINKS = 2 }; /* of any directory */
	struct stat status;

	/* The kernel counts each thread's directory as a link. */
	if (file_status("/proc/self/task", &status) != 0 || status.st_nlink <= OWN_LINKS)
		return -1;
	return (int)(status.st_nlink - OWN_LINKS);
}
