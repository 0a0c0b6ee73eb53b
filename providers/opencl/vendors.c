/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: explaining why the ICD loader found no platform: the loader silently skips a library that it cannot open.
 * Never: runs while there is a platform, or reads more files than the loader: those of a folder, which name libraries.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "opencl.h"

#define VENDORS   "/etc/OpenCL/vendors"
#define NAME_SIZE 256u

/* The folder that the loader reads. *ret_variable: the variable that names it; NULL: none does. */
static const char *choose_folder(const char **ret_variable)
{
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *folder = getenv(variables[i]);
        *ret_variable = variables[i];
        if (folder && *folder)
            return folder;
    }
    *ret_variable = NULL;
    return VENDORS;
}

/* The first line of a file is the library. False: there is none. */
static bool read_library(const char *folder, const char *file, char library[NAME_SIZE])
{
    size_t length = strlen(file);
    char path[1024];

    if (length < 4 || strcmp(file + length - 4, ".icd") != 0 ||
        (size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path)
        return false;
    FILE *stream = fopen(path, "re");
    bool found = stream && fgets(library, NAME_SIZE, stream);
    if (stream)
        fclose(stream);
    if (found)
        library[strcspn(library, "\r\n")] = '\0';
    return found && library[0];
}

/* The library stays open: some runtimes fail when they are unloaded, and the loader has opened it before. */
static enum facet_status try_library(const char *folder, const char *file, struct facet_error *error)
{
    char library[NAME_SIZE];

    if (!read_library(folder, file, library) || dlopen(library, RTLD_NOW | RTLD_LOCAL))
        return FACET_OK;
    const char *why = dlerror();
    return facet_kit_fail(error, FACET_UNSUPPORTED, "%.80s names a runtime that cannot be opened: %.200s", file,
                          why ? why : library);
}

enum facet_status facet_opencl_explain_none(struct facet_error *error)
{
    const char *variable, *path = choose_folder(&variable);
    enum facet_status status = FACET_OK;
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (!folder)
        return variable
                   ? facet_kit_fail(error, FACET_UNSUPPORTED, "%s is '%.150s', which cannot be read as a folder: %s",
                                    variable, path, strerror(errno))
                   : FACET_OK;
    while (status == FACET_OK && (entry = readdir(folder)))
        status = try_library(path, entry->d_name, error);
    closedir(folder);
    return status;
}
