/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the order of the search. Never: closes a handle that it has returned. */
#include "real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "forward.h"

#define PATH_SIZE 4096

static const char *const system_folders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
#else
    "/usr/lib/aarch64-linux-gnu",
    "/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
    NULL,
};

struct search {
    const char *soname;
    void *handle;
};

static bool is_same_file(const char *one, const char *other)
{
    struct stat a, b;

    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Compares files before any is opened: opening our own library through a link could load a second copy of it. */
static bool is_this_library(const char *path)
{
    Dl_info info;

    return dladdr(&facet_interposer, &info) && info.dli_fname && is_same_file(path, info.dli_fname);
}

void *facet_real_open_path(const char *path)
{
    void *handle = is_this_library(path) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle && dlsym(handle, "facet_interposer")) {
        dlclose(handle);
        handle = NULL;
    }
    return handle;
}

static bool open_path(const char *path, void *context)
{
    struct search *search = context;

    search->handle = facet_real_open_path(path);
    return search->handle;
}

static bool open_in_folder(const char *folder, size_t length, struct search *search)
{
    char path[PATH_SIZE];
    int written =
        snprintf(path, sizeof path, "%.*s/%s", length ? (int)length : 1, length ? folder : ".", search->soname);

    return written > 0 && (size_t)written < sizeof path && open_path(path, search);
}

/* Items are separated by ':' or ';'; an empty one means the current folder. */
static bool search_list(const char *list, struct search *search)
{
    for (const char *at = list; at;) {
        size_t length = strcspn(at, ":;");
        if (open_in_folder(at, length, search))
            return true;
        at = at[length] ? at + length + 1 : NULL;
    }
    return false;
}

static bool search_folders(const char *const *folders, struct search *search)
{
    for (; folders && *folders; folders++)
        if (open_in_folder(*folders, strlen(*folders), search))
            return true;
    return false;
}

void *facet_real_open(const struct facet_real *real)
{
    struct search search = {.soname = real->soname};
    const char *path = getenv(real->variable), *list = getenv("LD_LIBRARY_PATH");

    if (path && *path)
        return open_path(path, &search) ? search.handle : NULL;
    if (!(list && *list && search_list(list, &search)) &&
        !facet_cache_each("/etc/ld.so.cache", real->soname, open_path, &search) &&
        !search_folders(real->folders, &search))
        search_folders(system_folders, &search);
    return search.handle;
}
