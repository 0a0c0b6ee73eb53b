/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: walking the provider path. Never: depends on the locale; files sort by their bytes. */
#include "device/search.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/config.h"
#include "base/paths.h"

#define FILE_PATTERN "facet-provider-*.so"

/* The provider that is always built: its folder holds the others that ship with Facet. */
#define SHIPPED_PROVIDER "facet-provider-null.so"

/* The files found so far. */
struct search {
    struct facet_provider_record *records; /* room for FACET_PROVIDER_FILES */
    uint32_t count;
};

static enum facet_status add_file(struct search *search, const char *folder, const char *file,
                                  struct facet_error *error)
{
    struct facet_provider_record *record = &search->records[search->count];

    if (search->count == FACET_PROVIDER_FILES)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "providers", "more than %u provider files",
                                    FACET_PROVIDER_FILES);
    /* For a name without a slash, dlopen() would search the system's folders: so the name gets "./". */
    const char *here = folder[0] == '\0' && !strchr(file, '/') ? "." : folder;
    int length = snprintf(record->path, sizeof record->path, "%s%s%s", here, here[0] ? "/" : "", file);
    if (length < 0 || (size_t)length >= sizeof record->path)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "providers", "path '%.200s...' is too long",
                                    record->path);
    search->count++;
    return FACET_OK;
}

static int is_provider(const struct dirent *entry)
{
    return fnmatch(FILE_PATTERN, entry->d_name, 0) == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum facet_status add_folder(struct search *search, const char *folder, struct facet_error *error)
{
    struct dirent **entries;
    enum facet_status status = FACET_OK;
    int count = scandir(folder, &entries, is_provider, by_bytes);

    if (count < 0)
        return facet_error_errno(error, errno, "cannot read provider folder %s", folder);
    for (int i = 0; i < count; i++) {
        if (status == FACET_OK)
            status = add_file(search, folder, entries[i]->d_name, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static enum facet_status add_path(struct search *search, const char *path, struct facet_error *error)
{
    struct stat info;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return add_folder(search, path, error);
    return add_file(search, "", path, error);
}

static enum facet_status add_paths(struct search *search, const char *paths, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    FACET_CLEANUP_FREE char *list = strdup(paths);
    char *rest = list, *path;

    if (!list)
        return facet_error_errno(error, ENOMEM, "no memory for the provider path");
    while (status == FACET_OK && (path = strsep(&rest, ":")))
        if (*path)
            status = add_path(search, path, error);
    return status;
}

static enum facet_status add_shipped(struct search *search, struct facet_error *error)
{
    char folder[FACET_PATH_SIZE];
    enum facet_status status = facet_path_shipped(SHIPPED_PROVIDER, folder, sizeof folder, error);

    if (status != FACET_OK) {
        facet_error_prefix(error, "no providers found");
        return status;
    }
    *strrchr(folder, '/') = '\0';
    return add_folder(search, folder, error);
}

enum facet_status facet_provider_search(const char *paths, struct facet_provider_record **ret_records,
                                        uint32_t *ret_count, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_provider_record *records = calloc(FACET_PROVIDER_FILES, sizeof *records);
    struct search search = {.records = records};

    if (!records)
        return facet_error_errno(error, ENOMEM, "no memory for the providers");
    if (!paths)
        paths = facet_config_text(FACET_SETTING_PROVIDER_PATH);
    enum facet_status status = paths ? add_paths(&search, paths, error) : add_shipped(&search, error);
    if (status != FACET_OK)
        return status;
    *ret_count = search.count;
    *ret_records = FACET_TAKE_PTR(records);
    return FACET_OK;
}
