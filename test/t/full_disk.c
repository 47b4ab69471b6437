/*
 * full_disk.c
 *		Preloaded into a server: no file grows whose path contains what the file $AMORO_FULL_DISK says, as on a full disk.
 *
 * A small tmpfs would do the same, but only root can mount one. Empty or absent, the file stops nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Whether the write up to end would make the file grow on the full disk. */
static int
is_full(int fd, off_t end)
{
	const char *control = getenv("AMORO_FULL_DISK");
	char		pattern[64] = "";
	char		link[64];
	char		path[4096];
	struct stat status;
	ssize_t		length;
	int			saved = errno;
	int			in = control != NULL ? open(control, O_RDONLY | O_CLOEXEC) : -1;

	if (in < 0)
	{
		errno = saved;
		return 0;
	}
	length = read(in, pattern, sizeof(pattern) - 1);
	close(in);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (length <= 0 || (length = readlink(link, path, sizeof(path) - 1)) < 0)
	{
		errno = saved;
		return 0;
	}
	path[length] = '\0';
	errno = saved;
	return strstr(path, pattern) != NULL && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && end > status.st_size;
}

ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	static ssize_t (*original) (int, const void *, size_t, off_t);

	if (is_full(fd, offset + (off_t) size))
	{
		errno = ENOSPC;
		return -1;
	}
	*(void **) &original = dlsym(RTLD_NEXT, "pwrite");
	return original(fd, data, size, offset);
}

ssize_t
pwrite64(int fd, const void *data, size_t size, off_t offset)
{
	return pwrite(fd, data, size, offset);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	static ssize_t (*original) (int, const struct iovec *, int, off_t);
	off_t		end = offset;

	for (int i = 0; i < count; i++)
		end += (off_t) parts[i].iov_len;
	if (is_full(fd, end))
	{
		errno = ENOSPC;
		return -1;
	}
	*(void **) &original = dlsym(RTLD_NEXT, "pwritev");
	return original(fd, parts, count, offset);
}

ssize_t
pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
	return pwritev(fd, parts, count, offset);
}

int
posix_fallocate(int fd, off_t offset, off_t size)
{
	static int	(*original) (int, off_t, off_t);

	if (is_full(fd, offset + size))
		return ENOSPC;
	*(void **) &original = dlsym(RTLD_NEXT, "posix_fallocate");
	return original(fd, offset, size);
}

int
posix_fallocate64(int fd, off_t offset, off_t size)
{
	return posix_fallocate(fd, offset, size);
}
