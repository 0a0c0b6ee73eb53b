/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one frame of `facet top`. Never: waits or asks the daemon. */
#ifndef FACET_TOP_VIEW_H
#define FACET_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct top_sample {
    json_t *answer; /* of GET /v1/vgpus */
    uint64_t at_ns;
};

/*
 * Prints a frame. Rates are those between the two samples, and missing when both are the same sample. `redraw` paints
 * over the last frame. `trouble`, when not NULL, says why there is no newer sample. False: out of memory.
 */
bool top_view_print(const struct top_sample *before, const struct top_sample *now, bool redraw, const char *trouble);

#endif
