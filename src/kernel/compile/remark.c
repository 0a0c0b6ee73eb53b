/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: diagnostics of one compile. Never: keeps more than REMARKS_MAX of them, since a macro can make millions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/compile/compile.h"

enum { REMARKS_MAX = 1000 };

void facet_compile_remark(void *context, uint32_t severity, uint32_t line, uint32_t column, const char *file,
                          const char *text)
{
    struct facet_compilation *compilation = context;
    struct facet_backend_result *result = compilation->result;
    struct facet_backend_diagnostic *list, one = {.severity = severity, .line = line, .column = column};

    compilation->failed |= severity == FACET_SEVERITY_ERROR;
    if (result->diagnostic_count >= REMARKS_MAX)
        return;
    list = realloc(result->diagnostics, (result->diagnostic_count + 1) * sizeof *list);
    if (!list)
        return;
    result->diagnostics = list;
    one.file = strdup(file && file[0] ? file : compilation->request->name);
    one.text = strdup(text);
    if (!one.file || !one.text) {
        free(one.file);
        free(one.text);
        return;
    }
    list[result->diagnostic_count++] = one;
}

void facet_compile_remark_clear(struct facet_backend_result *result)
{
    for (uint32_t i = 0; i < result->diagnostic_count; i++) {
        free(result->diagnostics[i].file);
        free(result->diagnostics[i].text);
    }
    free(result->diagnostics);
    result->diagnostics = NULL;
    result->diagnostic_count = 0;
}

enum facet_status facet_compile_verdict(const struct facet_compilation *compilation, struct facet_error *error)
{
    const struct facet_backend_result *result = compilation->result;

    if (!compilation->failed)
        return FACET_OK;
    for (uint32_t i = 0; i < result->diagnostic_count; i++) {
        const struct facet_backend_diagnostic *remark = &result->diagnostics[i];
        if (remark->severity != FACET_SEVERITY_ERROR)
            continue;
        if (!remark->line)
            return facet_error_argument(error, FACET_CORRUPT, "source", "%s: %s", remark->file, remark->text);
        return facet_error_argument(error, FACET_CORRUPT, "source", "%s:%u:%u: %s", remark->file, remark->line,
                                    remark->column, remark->text);
    }
    return facet_error_argument(error, FACET_CORRUPT, "source", "%s: has errors", compilation->request->name);
}

uint64_t facet_compile_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
