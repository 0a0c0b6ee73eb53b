/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the node document of this machine: what the device table says, in the words of facet/spec.h. Never: prints. */
#ifndef FACET_SPEC_NODE_H
#define FACET_SPEC_NODE_H

#include <facet/spec.h>

#include "device/table.h"

/* Of the devices in `chosen` (indexes into the table, `count` of them), or of all when `count` is 0. Opens providers
 * whose devices can be cut, to see how they are. */
enum facet_status spec_node_make(const struct facet_device_table *devices, const uint32_t *chosen, uint32_t count,
                                 struct facet_spec **ret_spec, struct facet_error *error);

static inline void spec_node_cleanup(struct facet_spec **spec)
{
    facet_spec_destroy(*spec);
}
#define SPEC_NODE_CLEANUP __attribute__((cleanup(spec_node_cleanup)))

#endif
