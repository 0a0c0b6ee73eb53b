/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: unplugging one device from a VM.
 * Never: reports a device as gone while QEMU still has it.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_UNPLUG_H
#define FACET_PASSTHROUGH_ATTACH_UNPLUG_H

#include "passthrough/attach/qmp.h"

/*
 * Like facet_qmp_detach(), but for one id, until `until_ns`, and without a check of the functions that share the slot.
 * An absent device is no error.
 */
enum facet_status facet_qmp_unplug(struct facet_qmp *qmp, const char *id, uint64_t until_ns, struct facet_error *error);

#endif
