/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking one provider everything the device table wants to know.
 *
 * Owns: loading the shared object, the version negotiation, the size rules, the two-call listing.
 * Never: guards against a provider that crashes or hangs; probe.h runs this in a child for that reason.
 */
#ifndef FACET_DEVICE_LOADER_H
#define FACET_DEVICE_LOADER_H

#include <stdatomic.h>

#include <facet/provider.h>

/* More devices than this in one provider is taken for garbage. */
#define FACET_PROVIDER_DEVICES 1024u

/* How far a provider got. Kept up to date, so that whoever watches knows where it died. */
enum facet_loader_stage {
    FACET_LOADER_LOAD,
    FACET_LOADER_ENTER,
    FACET_LOADER_OPEN,
    FACET_LOADER_LIST,
    FACET_LOADER_HEALTH,
    FACET_LOADER_CLOSE,
    FACET_LOADER_REFUSED, /* final: `error` says why */
    FACET_LOADER_DONE,    /* final: everything below is filled in */
};

/* What a provider said. Plain data without pointers, because it is shared between two processes. */
struct facet_provider_answer {
    _Atomic uint32_t stage;
    struct facet_error error;
    char name[64], version[64], description[160];
    uint16_t abi_major, abi_minor; /* negotiated */
    uint64_t traits;
    uint32_t device_count;
    uint32_t health[FACET_PROVIDER_DEVICES];
    struct facet_device_info infos[FACET_PROVIDER_DEVICES];
};

/*
 * Loads the provider at `path`, asks it, and closes it again; the object stays loaded. Claims `abi_minor`. Writes to
 * the zeroed `answer` as it goes; it ends in one of the two final stages.
 */
void facet_loader_run(const char *path, uint16_t abi_minor, struct facet_provider_answer *answer);

#endif
