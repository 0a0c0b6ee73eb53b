/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking one provider, through a session, for everything that the device table keeps.
 *
 * Owns: the two-call listing, health, and the test whether a device's description makes sense.
 * Never: keeps the session open: it is closed when the questions are answered.
 */
#ifndef FACET_DEVICE_INQUIRY_H
#define FACET_DEVICE_INQUIRY_H

#include "device/table.h"

/* More devices than this in one provider is taken for garbage. */
#define FACET_PROVIDER_DEVICES 1024u

/* A provider that is being asked. Zeroed: none. */
struct facet_inquiry {
    struct facet_session *session;
    struct facet_device_info *infos;
    uint32_t *health; /* enum facet_health, of each device */
};

/* Starts asking the provider at `path`. Several may be asked at once. Errors: those of starting a session. */
enum facet_status facet_inquiry_start(const char *path, const struct facet_session_options *options,
                                      struct facet_inquiry *ret_inquiry, struct facet_error *error);

/* Waits for the answers and writes them to `record`: loaded, or refused with the reason. `record->path` must be filled
 * in. On return the session is closed. */
void facet_inquiry_finish(struct facet_inquiry *inquiry, struct facet_provider_record *record);

/* The device at `index` of a provider that facet_inquiry_finish() found good. */
void facet_inquiry_device(const struct facet_inquiry *inquiry, uint32_t index, struct facet_device_record *ret_device);

/* Ends an unfinished inquiry and frees the answers. A zeroed inquiry is allowed. */
void facet_inquiry_close(struct facet_inquiry *inquiry);

#endif
