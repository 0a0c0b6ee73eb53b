/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: stat(), fstat() and fstatat(), which libc exports since glibc 2.33 (before, programs called __xstat(),
 * __fxstat() and __fxstatat()). Never: seen outside of the library that contains it.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct stat is the kernel's, of 64-bit sizes, on all processors for which interposers are built. */
int stat(const char *path, struct stat *ret_status)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_status, 0);
}

int fstatat(int folder, const char *path, struct stat *ret_status, int flags)
{
    return (int)syscall(SYS_newfstatat, folder, path, ret_status, flags);
}

int fstat(int descriptor, struct stat *ret_status)
{
    return (int)syscall(SYS_fstat, descriptor, ret_status);
}
