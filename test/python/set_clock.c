/*
 * set_clock.c
 *	  Shift the system clock of programs that preload this library by an offset that is
 *	  stored in a file.
 *
 * The file is mapped into memory, because signal handlers, such as PostgreSQL's, may read
 * the clock and must not allocate memory.  Monotonic clocks are not changed.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds_off;

__attribute__((constructor)) static void
map_file(void)
{
	const char *path = getenv("INORDER_TEST_CLOCK");
	int			file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void	   *mapped = file >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;

	if (file >= 0)
		close(file);
	if (mapped != MAP_FAILED)
		seconds_off = mapped;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	long		result = syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && seconds_off != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *seconds_off;
	return (int) result;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;
	int			result = clock_gettime(CLOCK_REALTIME, &exact);

	(void) zone;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return result;
}

time_t
time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
