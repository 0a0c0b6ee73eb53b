/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: setting list variables and checking file variables; see launch_variable.h. Never: removes an earlier value. */
#include "launch_variable.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

bool launch_put_in_front(const char *variable, const char *first)
{
    const char *before = getenv(variable);
    FACET_CLEANUP_FREE char *value = NULL;

    if (!before || !before[0])
        return setenv(variable, first, 1) == 0;
    if (asprintf(&value, "%s:%s", first, before) < 0) {
        value = NULL;
        return false;
    }
    return setenv(variable, value, 1) == 0;
}

/* Reads the ELF header of a file. Returns NULL, or the fault of the file. */
static const char *read_head(const char *path, ElfW(Ehdr) * ret_head)
{
    FACET_CLEANUP_FILE FILE *file = fopen(path, "re");

    memset(ret_head, 0, sizeof *ret_head);
    if (!file)
        return strerror(errno);
    if (fread(ret_head, sizeof *ret_head, 1, file) != 1 || memcmp(ret_head->e_ident, ELFMAG, SELFMAG) != 0)
        return ferror(file) ? strerror(errno) : "not a shared library";
    return NULL;
}

/* The fault of the library; NULL: none. Its dependencies are not checked: the first call reports them. */
static const char *fault_of_library(const char *path)
{
    ElfW(Ehdr) head, ours;
    const char *fault = read_head(path, &head);

    if (fault)
        return fault;
    if (head.e_type != ET_DYN)
        return "not a shared library";
    if (read_head("/proc/self/exe", &ours) == NULL &&
        (head.e_machine != ours.e_machine || head.e_ident[EI_CLASS] != ours.e_ident[EI_CLASS]))
        return "a library for other processors";
    return NULL;
}

enum facet_status launch_check_library(const char *variable, struct facet_error *error)
{
    const char *path = getenv(variable), *fault = path && path[0] ? fault_of_library(path) : NULL;

    if (!fault)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, variable,
                                "%s is '%.150s': %s; expected the path of the vendor's library, or unset", variable,
                                path, fault);
}
