/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: unplugging one device from a VM.
 * Never: reports a device as gone while QEMU still has it.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_UNPLUG_H
#define FACET_PASSTHROUGH_ATTACH_UNPLUG_H

#include "passthrough/attach/qmp.h"

/*
 * As facet_qmp_detach(), for one id, without a check of the functions that share its slot. An absent device is no
 * error.
 */
enum facet_status facet_qmp_unplug(struct facet_qmp *qmp, const char *id, uint64_t until_ns, struct facet_error *error);

#endif
