/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the programs (facet, facetd) to an operator.
 *
 * Owns: levels, and one line per message on stderr: "facetd: warning: text".
 * Never: is called by the library, which returns errors instead; writes a line in two pieces.
 *
 * Thread rule: any thread; a line is one write(2).
 */
#ifndef FACET_BASE_LOG_H
#define FACET_BASE_LOG_H

#include <stdbool.h>

#include <facet/export.h>

enum facet_log_level {
    FACET_LOG_ERROR,
    FACET_LOG_WARNING,
    FACET_LOG_INFO,
    FACET_LOG_DEBUG,
};

#define FACET_LOG_LEVELS (FACET_LOG_DEBUG + 1)

static inline const char *facet_log_level_name(enum facet_log_level level)
{
    static const char *const names[FACET_LOG_LEVELS] = {
        [FACET_LOG_ERROR] = "error",
        [FACET_LOG_WARNING] = "warning",
        [FACET_LOG_INFO] = "info",
        [FACET_LOG_DEBUG] = "debug",
    };

    return names[level];
}

/* Whether $FACET_LOG lets `level` through, for a caller that would prepare a costly message. */
bool facet_log_enabled(enum facet_log_level level);

/* Writes one line when the level is let through. Control characters become '?', so that no message forges another. */
void facet_log(enum facet_log_level level, const char *format, ...) FACET_PRINTF(2, 3);

#endif
