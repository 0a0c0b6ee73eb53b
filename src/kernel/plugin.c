/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding, identifying and opening facet-kernel-compiler.so. Never: calls a compiler with another version of the
 * interface (FACET_BACKEND_ABI). */
#include "kernel/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/paths.h"

/* The attributes of a file, at least one of which changes when the file is replaced. */
struct file_attributes {
    uint64_t device, inode, bytes, changed_ns;
};

static enum facet_status find_plugin(char *ret_path, struct facet_error *error)
{
    struct facet_error reason = {0};
    enum facet_status status = facet_path_shipped(FACET_BACKEND_FILE, ret_path, FACET_PATH_SIZE, &reason);

    if (status != FACET_NOT_FOUND)
        return status == FACET_OK ? status : facet_error_set(error, status, "%s", reason.message);
    return facet_error_set(error, FACET_UNSUPPORTED,
                           "this build of Facet has no kernel compiler: %s; build it with LLVM 22 (packages "
                           "llvm-22-dev libclang-22-dev liblld-22-dev), or install the package that has it",
                           reason.message);
}

/* The attributes of a file that does not exist are all zeros. */
static struct file_attributes attributes_of(const char *path)
{
    struct stat info;

    if (stat(path, &info) < 0)
        return (struct file_attributes){0};
    return (struct file_attributes){
        .device = info.st_dev,
        .inode = info.st_ino,
        .bytes = (uint64_t)info.st_size,
        .changed_ns = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec,
    };
}

static struct file_attributes attributes_in_same_folder(const char *path, const char *file)
{
    char beside[FACET_PATH_SIZE + 64];
    const char *slash = strrchr(path, '/');

    snprintf(beside, sizeof beside, "%.*s/%s", slash ? (int)(slash - path) : 0, path, file);
    return attributes_of(beside);
}

enum facet_status facet_plugin_identify(XXH128_hash_t *ret_identity, struct facet_error *error)
{
    char path[FACET_PATH_SIZE];
    enum facet_status status = find_plugin(path, error);

    if (status != FACET_OK)
        return status;
    const struct file_attributes files[] = {
        attributes_of(path),
        attributes_in_same_folder(path, "facet-builtins-host.bc"),
        attributes_in_same_folder(path, "facet-builtins-ptx.bc"),
        attributes_in_same_folder(path, "facet-builtins-amdgcn.bc"),
        attributes_of("/etc/ld.so.cache"),
    };
    *ret_identity = XXH3_128bits(files, sizeof files);
    return FACET_OK;
}

static enum facet_status check_backend(const struct facet_backend *backend, const char *path, struct facet_error *error)
{
    if (!backend || backend->abi != FACET_BACKEND_ABI)
        return facet_error_set(error, FACET_ABI_MISMATCH, "%s has version %u of the interface; expected %u", path,
                               backend ? backend->abi : 0, FACET_BACKEND_ABI);
    if (!backend->version || !backend->compile || !backend->clear || !backend->knows)
        return facet_error_set(error, FACET_CORRUPT, "%s lacks a version or a function; expected all of the interface",
                               path);
    return FACET_OK;
}

enum facet_status facet_plugin_open(const struct facet_backend **ret_backend, struct facet_error *error)
{
    char path[FACET_PATH_SIZE];
    facet_backend_entry_func entry;
    enum facet_status status = find_plugin(path, error);

    if (status != FACET_OK)
        return status;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return facet_error_set(error, FACET_UNSUPPORTED, "the kernel compiler cannot be opened: %s", dlerror());
    void *symbol = dlsym(object, FACET_BACKEND_ENTRY);
    if (!symbol)
        return facet_error_set(error, FACET_CORRUPT, "%s does not export " FACET_BACKEND_ENTRY, path);
    memcpy(&entry, &symbol, sizeof entry);
    const struct facet_backend *backend = entry();
    status = check_backend(backend, path, error);
    if (status == FACET_OK)
        *ret_backend = backend;
    return status;
}
