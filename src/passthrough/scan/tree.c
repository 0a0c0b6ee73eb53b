/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening below a directory, and reading the opened files. Never: keeps a file open that it does not return. */
#include "passthrough/scan/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

enum facet_pci_unread tree_unread(int errnum)
{
    switch (errnum) {
    case 0:
        return FACET_PCI_READ;
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ESRCH:
    case EOPNOTSUPP:
        return FACET_PCI_UNREAD_ABSENT;
    case EACCES:
    case EPERM:
        return FACET_PCI_UNREAD_PERMISSION;
    case ELOOP:
    case EISDIR:
    case EINVAL:
    case EAGAIN: /* a pipe without anything in it */
        return FACET_PCI_UNREAD_MALFORMED;
    default:
        return FACET_PCI_UNREAD_IO;
    }
}

enum facet_pci_unread tree_worse(enum facet_pci_unread a, enum facet_pci_unread b)
{
    return a == FACET_PCI_READ || (a == FACET_PCI_UNREAD_ABSENT && b != FACET_PCI_READ) ? b : a;
}

enum {
    LINE_SIZE = 65536,       /* a line of /proc/interrupts has eleven bytes for each CPU */
    LINES_BYTES = 128 << 20, /* no file of the kernel is longer */
    OPEN_TRIES = 1000,
};

/* Links are followed as if `at` were the root, so that no link leads out of it. With ".." in a path, openat2() fails
 * with EAGAIN when any file is renamed meanwhile, and is then retried. Where a sandbox lacks or forbids openat2(),
 * openat() is used. */
static int open_below(int at, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT};
    int fd, tries = 0;

    while (*path == '/')
        path++;
    path = *path ? path : ".";
    do
        fd = (int)syscall(SYS_openat2, at, path, &how, sizeof how);
    while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < OPEN_TRIES);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(at, path, flags | O_CLOEXEC);
    return fd;
}

int tree_open_directory(int at, const char *path)
{
    return open_below(at, path, O_RDONLY | O_DIRECTORY);
}

int tree_open_path(int at, const char *path)
{
    return open_below(at, path, O_PATH);
}

enum { READING = O_RDONLY | O_NONBLOCK | O_NOCTTY };

static bool is_file(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* Refuses a pipe or a directory, which a copied tree may hold in place of a file. Opening it does not block. */
static int open_regular(int at, const char *path, int flags)
{
    FACET_CLEANUP_FD int fd = open_below(at, path, flags);

    if (fd < 0)
        return -1;
    if (!is_file(fd)) {
        errno = EINVAL;
        return -1;
    }
    return FACET_TAKE_FD(fd);
}

int tree_open_file(int at, const char *path)
{
    return open_regular(at, path, READING);
}

int tree_open_writable(int at, const char *path)
{
    return open_regular(at, path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
}

static ssize_t read_once(int fd, void *bytes, size_t size)
{
    ssize_t length;

    do
        length = read(fd, bytes, size);
    while (length < 0 && errno == EINTR);
    return length;
}

/* One read is enough, because the kernel returns an attribute of up to a page at once. */
enum facet_pci_unread tree_read_bytes(int at, const char *path, void *bytes, size_t size, size_t *ret_length)
{
    FACET_CLEANUP_FD int fd = open_below(at, path, READING);
    ssize_t length = fd < 0 ? -1 : read_once(fd, bytes, size);

    if (length < 0)
        return tree_unread(errno);
    if (length == 0 && !is_file(fd)) /* the check costs a call, so it is made for empty reads only */
        return FACET_PCI_UNREAD_MALFORMED;
    *ret_length = (size_t)length;
    return FACET_PCI_READ;
}

/* Reads a line. A newline may take the last byte of `text`; any other byte there means that the line was cut. */
static enum facet_pci_unread read_text(int at, const char *path, char *text, size_t size, bool *ret_cut)
{
    size_t length = 0;
    enum facet_pci_unread unread = tree_read_bytes(at, path, text, size, &length);

    *ret_cut = unread == FACET_PCI_READ && length == size && text[size - 1] != '\n';
    if (unread != FACET_PCI_READ || length == 0) {
        text[0] = '\0';
        return unread;
    }
    if (length == size || text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    return FACET_PCI_READ;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static enum facet_pci_unread read_line(int at, const char *path, char *text, size_t size, bool may_cut)
{
    bool cut;
    enum facet_pci_unread unread = read_text(at, path, text, size, &cut);

    if (unread == FACET_PCI_READ && (!is_plain(text) || (cut && !may_cut))) {
        text[0] = '\0';
        unread = FACET_PCI_UNREAD_MALFORMED;
    }
    return unread;
}

enum facet_pci_unread tree_read_text(int at, const char *path, char *text, size_t size)
{
    return read_line(at, path, text, size, false);
}

enum facet_pci_unread tree_read_text_cut(int at, const char *path, char *text, size_t size)
{
    return read_line(at, path, text, size, true);
}

static const char *digits_of(int base)
{
    return base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
}

enum facet_pci_unread tree_read_number(int at, const char *path, int base, uint64_t max, uint64_t *ret_value)
{
    char text[32];
    enum facet_pci_unread unread = tree_read_text(at, path, text, sizeof text);

    if (unread != FACET_PCI_READ)
        return unread;
    const char *digits = base == 16 && strncmp(text, "0x", 2) == 0 ? text + 2 : text;
    if (!*digits || digits[strspn(digits, digits_of(base))] != '\0')
        return FACET_PCI_UNREAD_MALFORMED;
    errno = 0;
    uint64_t value = strtoull(digits, NULL, base);
    if (errno != 0 || value > max)
        return FACET_PCI_UNREAD_MALFORMED;
    *ret_value = value;
    return FACET_PCI_READ;
}

/* readlinkat() is used only for a path of one part, because earlier parts could be links that lead out of `at`. */
static ssize_t read_link(int at, const char *path, char *text, size_t size)
{
    if (!strchr(path, '/'))
        return readlinkat(at, path, text, size);
    FACET_CLEANUP_FD int fd = open_below(at, path, O_PATH | O_NOFOLLOW);
    return fd < 0 ? -1 : readlinkat(fd, "", text, size);
}

enum facet_pci_unread tree_read_link(int at, const char *path, char *text, size_t size)
{
    ssize_t length = read_link(at, path, text, size);

    if (length < 0 || (size_t)length == size) {
        text[0] = '\0';
        return length < 0 ? tree_unread(errno) : FACET_PCI_UNREAD_MALFORMED;
    }
    text[length] = '\0';
    return FACET_PCI_READ;
}

enum facet_pci_unread tree_read_link_name(int at, const char *path, char *text, size_t size)
{
    char target[1024];
    enum facet_pci_unread unread = tree_read_link(at, path, target, sizeof target);
    const char *name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;

    text[0] = '\0';
    if (unread != FACET_PCI_READ)
        return unread;
    if (!*name || *name == '.' || strlen(name) >= size || !is_plain(name))
        return FACET_PCI_UNREAD_MALFORMED;
    memcpy(text, name, strlen(name) + 1);
    return FACET_PCI_READ;
}

bool tree_exists(int at, const char *path)
{
    FACET_CLEANUP_FD int fd = open_below(at, path, O_PATH);

    return fd >= 0;
}

static DIR *open_names(int at, const char *path)
{
    int fd = tree_open_directory(at, path);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (!directory)
        facet_cleanup_fd(&fd);
    return directory;
}

enum facet_pci_unread tree_each_name(int at, const char *path, tree_take_func take, void *context)
{
    FACET_CLEANUP_DIR DIR *directory = open_names(at, path);
    struct dirent *entry;

    if (!directory)
        return tree_unread(errno);
    for (errno = 0; (entry = readdir(directory)); errno = 0)
        if (entry->d_name[0] != '.' && !take(context, entry->d_name))
            return FACET_PCI_READ;
    return tree_unread(errno);
}

/* A line reader's state: the bytes of the next line so far are at the beginning of the buffer. */
struct lines {
    char *buffer;
    size_t held;
    bool is_continued; /* the bytes continue a line that was too long, and whose beginning was taken */
    tree_take_func take;
    void *context;
};

/* Passes the complete lines to `take`. False: `take` stops. */
static bool take_lines(struct lines *lines)
{
    char *line = lines->buffer, *end;
    size_t left = lines->held;

    while (left > 0 && (end = memchr(line, '\n', left))) {
        *end = '\0';
        if (!lines->is_continued && !lines->take(lines->context, line))
            return false;
        lines->is_continued = false;
        left -= (size_t)(end + 1 - line);
        line = end + 1;
    }
    memmove(lines->buffer, line, left);
    lines->held = left;
    return true;
}

/* Passes a line that ends with the file, or that fills the buffer. False: `take` stops. */
static bool take_open_line(struct lines *lines)
{
    bool is_continued = lines->is_continued;

    lines->buffer[lines->held] = '\0';
    lines->held = 0;
    lines->is_continued = true;
    return is_continued || lines->take(lines->context, lines->buffer);
}

static enum facet_pci_unread read_lines(int fd, struct lines *lines)
{
    for (size_t total = 0; total < LINES_BYTES;) {
        ssize_t count = read_once(fd, lines->buffer + lines->held, LINE_SIZE - 1 - lines->held);

        if (count < 0)
            return tree_unread(errno);
        if (count == 0) {
            if (lines->held > 0)
                take_open_line(lines);
            return FACET_PCI_READ;
        }
        if (memchr(lines->buffer + lines->held, '\0', (size_t)count)) /* not a text file */
            return FACET_PCI_UNREAD_MALFORMED;
        total += (size_t)count;
        lines->held += (size_t)count;
        if (!take_lines(lines) || (lines->held == LINE_SIZE - 1 && !take_open_line(lines)))
            return FACET_PCI_READ;
    }
    return FACET_PCI_UNREAD_MALFORMED; /* longer than any file of the kernel */
}

enum facet_pci_unread tree_each_line(int at, const char *path, tree_take_func take, void *context)
{
    FACET_CLEANUP_FREE char *buffer = malloc(LINE_SIZE);
    FACET_CLEANUP_FD int fd = buffer ? tree_open_file(at, path) : -1;

    if (fd < 0)
        return tree_unread(errno);
    return read_lines(fd, &(struct lines){.buffer = buffer, .take = take, .context = context});
}

void *tree_append(void **array, size_t *count, size_t element_size)
{
    /* The capacity is the next power of two, so an array with a power of two of elements is full. */
    if ((*count & (*count - 1)) == 0) {
        void *larger = reallocarray(*array, *count ? *count * 2 : 1, element_size);

        if (!larger)
            return NULL;
        *array = larger;
    }
    return (char *)*array + (*count)++ * element_size;
}
