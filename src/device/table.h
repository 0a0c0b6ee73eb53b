/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device table: every provider that was found, and every device that a provider lists.
 *
 * Owns: finding, asking and refusing providers; device ids; resolving the names that people type.
 * Never: treats a vendor differently, or drops the reason of a refusal.
 *
 * Every provider is asked through a session of its own (facet/session.h) that lives as long as the questions, and the
 * table keeps the answers. So vendor code never runs in this process, and a provider that crashes or hangs is refused
 * with its reason and harms no other. A caller that needs more of a device opens another session with its provider's
 * `path`. Providers are in the order of `paths`; within a folder, by file name. Devices keep the provider's order, but
 * devices that cannot run programs come after all others, because the first device is the default.
 *
 * Thread rule: one thread opens and closes the table; in between, any thread may call the other functions, because the
 * table does not change.
 */
#ifndef FACET_DEVICE_TABLE_H
#define FACET_DEVICE_TABLE_H

#include <facet/device.h>
#include <facet/provider.h>
#include <facet/session.h>

enum facet_provider_state {
    FACET_PROVIDER_LOADED,
    FACET_PROVIDER_REFUSED,
};

struct facet_provider_record {
    char path[1024];
    char name[64]; /* as the provider reports it; taken from the file's name when the provider could not report it */
    char version[64];
    char description[160];
    uint16_t abi_major, abi_minor; /* negotiated; 0.0 when refused */
    uint64_t traits;
    enum facet_provider_state state;
    struct facet_error reason; /* of a refusal */
    uint32_t device_count;
};

struct facet_device_record {
    char id[FACET_DEVICE_ID_SIZE]; /* "<provider>:<index>" */
    const struct facet_provider_record *provider;
    struct facet_device_info info;
    uint32_t health;  /* enum facet_health when the table was opened */
    char cpuset[256]; /* processors near the device as a list ("0-1"), from the topology; empty when unknown */
};

/*
 * Whether unmodified programs can run on the device: it offers an isolation mode and an interposer can find it (ADR 9).
 * On any other device, kernels can be launched through facet/session.h only, and no vGPU is created.
 */
bool facet_device_takes_programs(const struct facet_device_record *device);

struct facet_device_table; /* opaque */

/*
 * Asks every provider. `paths` is a colon-separated list of files and of folders; in a folder, each
 * "facet-provider-*.so" is taken. NULL means $FACET_PROVIDER_PATH, else the shipped providers. Refused providers do not
 * fail the call.
 * `options` are passed to each session; NULL means the defaults.
 */
enum facet_status facet_device_table_open(const char *paths, struct facet_device_table **ret_table,
                                          struct facet_error *error);
enum facet_status facet_device_table_open_with(const char *paths, const struct facet_session_options *options,
                                               struct facet_device_table **ret_table, struct facet_error *error);
void facet_device_table_close(struct facet_device_table *table); /* NULL is allowed */

uint32_t facet_device_table_count(const struct facet_device_table *table);
const struct facet_device_record *facet_device_table_at(const struct facet_device_table *table, uint32_t index);
uint32_t facet_provider_count(const struct facet_device_table *table);
const struct facet_provider_record *facet_provider_at(const struct facet_device_table *table, uint32_t index);

/* Why providers were refused: "; provider x was refused: ..." for each. A text that does not fit is cut at its end. */
void facet_device_table_explain(const struct facet_device_table *table, char *ret_text, size_t size);

/*
 * Resolves a person's `text`: an id ("opencl:0"), a uuid, or an index into the table; NULL means the first device.
 * FACET_NOT_FOUND: the error lists the devices of the table. FACET_UNSUPPORTED: the table is empty; the error says
 * which providers were refused and why.
 */
enum facet_status facet_device_table_find(const struct facet_device_table *table, const char *text,
                                          const struct facet_device_record **ret_device, struct facet_error *error);

#endif
