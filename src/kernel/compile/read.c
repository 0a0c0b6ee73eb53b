/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of one compile's questions to the file system. Never: loses an answer without marking the list
 * incomplete. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/compile/compile.h"
#include "kernel/compile/shims.h"

enum { READS_MAX = 65536 };

static bool add_read(struct facet_backend_result *result, const char *path, const struct facet_shim_read *read)
{
    struct facet_backend_read *list;

    if (result->read_count >= READS_MAX || !path[0] || strlen(path) >= PATH_MAX)
        return false;
    list = realloc(result->reads, (result->read_count + 1) * sizeof *list);
    if (!list)
        return false;
    result->reads = list;
    list += result->read_count;
    *list = (struct facet_backend_read){
        .path = strdup(path), .kind = read->kind, .bytes = read->bytes, .hash = {read->hash[0], read->hash[1]}};
    result->read_count += list->path != NULL;
    return list->path;
}

void facet_compile_read(void *context, const char *path, const struct facet_shim_read *read)
{
    struct facet_compilation *compilation = context;
    struct facet_backend_result *result = compilation->result;

    if (!path || !add_read(result, path, read))
        result->unrepeatable = 1;
}

void facet_compile_read_clear(struct facet_backend_result *result)
{
    for (uint32_t i = 0; i < result->read_count; i++)
        free(result->reads[i].path);
    free(result->reads);
    result->reads = NULL;
    result->read_count = 0;
}
