/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: creating contexts and reading properties, for several groups. Never: repeats checks of other groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/check.h"

bool facet_check_context(struct facet_check *check, const char *worker, uint64_t *ret_context)
{
    return EXPECT_OK(
        check, "memory.create_context: a worker gets a context",
        check->memory_ops.create_context(check->instance, check->device, NULL, worker, ret_context, &check->error));
}

void facet_check_drop_context(struct facet_check *check, uint64_t context)
{
    EXPECT_OK(check, "memory.destroy_context: ends it",
              check->memory_ops.destroy_context(check->instance, context, &check->error));
}

uint64_t facet_check_used(struct facet_check *check, uint64_t context)
{
    struct facet_memory_info info = {.size = sizeof info};

    if (check->memory_ops.info(check->instance, context, &info, NULL) != FACET_OK)
        return UINT64_MAX;
    return info.used_bytes;
}

/* All lines of device.properties, to free(); NULL when there are none. */
static char *read_properties(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;
    uint32_t size = 0;

    if (!ops->properties || ops->properties(check->instance, check->device, NULL, 0, &size, NULL) != FACET_TOO_SMALL ||
        size == 0)
        return NULL;
    FACET_CLEANUP_FREE char *text = calloc((size_t)size + 1, 1);
    if (!text || ops->properties(check->instance, check->device, text, size, &size, NULL) != FACET_OK)
        return NULL;
    return FACET_TAKE_PTR(text);
}

bool facet_check_property(struct facet_check *check, const char *key, char *ret_value, size_t size)
{
    FACET_CLEANUP_FREE char *text = read_properties(check);
    size_t length = strlen(key);

    for (const char *line = text; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, key, length) != 0 || line[length] != '=')
            continue;
        const char *value = line + length + 1;
        snprintf(ret_value, size, "%.*s", (int)strcspn(value, "\n"), value);
        return true;
    }
    return false;
}
