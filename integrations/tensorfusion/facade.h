/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the facade share: a call from TensorFusion, the providers behind it, and their devices.
 *
 * Owns: the structs, and the order of the steps in every exported function: facade_begin(), the check of its
 * arguments, facade_enter(), its work, and facade_leave().
 * Never: keeps a device list. Providers are asked each time, so that devices that came or went are noticed.
 *
 * Locks: the providers have one, the limiter has another. A call holds its lock for reading from facade_enter() or
 * tf_enter() to facade_leave(). Init, shutdown, a call that opens providers (again), and a call that changes the
 * limiter's workers hold it for writing. No call holds both locks at once. Messages are kept in the call and go to the
 * callback after the lock is released, so that the callback may call any function of this library.
 */
#ifndef FACET_TENSORFUSION_FACADE_H
#define FACET_TENSORFUSION_FACADE_H

#include <pthread.h>
#include <stdlib.h>

#include <facet/session.h>

#include "accelerator_abi.h"

#define FACADE_MESSAGES 8 /* a call keeps at most so many messages; only the number of the later ones is logged */

struct facade_message {
    const char *level;
    char text[480];
};

struct facade_call {
    const char *function;
    pthread_rwlock_t *held_lock;
    struct facade_message messages[FACADE_MESSAGES];
    uint32_t count; /* includes messages that were not kept */
};

struct facade_provider {
    char *path;
    struct facet_session *session;
};

struct facade_device {
    const struct facade_provider *provider;
    struct facet_device_info info; /* its `index` is the provider's; the facade's index is the position in the list */
};

struct facade_devices {
    struct facade_device *items;
    uint32_t count;
};

/* ---- call.c: results and messages ---- */

void facade_begin(struct facade_call *call, const char *function);
/* Releases the lock, hands the messages to the callback, and returns `result`. */
AccelResult facade_leave(struct facade_call *call, AccelResult result);

FACET_PRINTF(3, 4) void facade_log(struct facade_call *call, const char *level, const char *format, ...);
AccelResult facade_result(enum facet_status status);
/* Logs the error, since the ABI has no place for it, and returns the result for its status. */
AccelResult facade_refuse(struct facade_call *call, const struct facet_error *error);
FACET_PRINTF(3, 4) AccelResult facade_fail(struct facade_call *call, AccelResult result, const char *format, ...);

void facade_text(char *target, size_t size, const char *source);
#define FACADE_TEXT(array, source) facade_text((array), sizeof(array), (source))

/* ---- provider.c ---- */

/* Takes the providers' lock; opens the providers if neither AccelInit() nor an earlier call did. Logs a failure. */
AccelResult facade_enter(struct facade_call *call);
/* Like facade_enter(), but opens lost providers again first. */
AccelResult facade_enter_discovery(struct facade_call *call);

const struct facade_provider *facade_providers(uint32_t *ret_count);

/* The devices of all providers, to be freed with free(items). A provider without an answer is logged and left out. */
enum facet_status facade_devices_list(struct facade_call *call, struct facade_devices *ret_devices,
                                      struct facet_error *error);
/*
 * The device with that uuid. Upper and lower case count as the same, because TensorFusion changes the case. Returns
 * FACET_NOT_FOUND if no device has the uuid.
 */
enum facet_status facade_device_find(struct facade_call *call, const char *uuid, struct facade_device *ret_device,
                                     struct facet_error *error);

/* What the limiter must know of a device. */
struct facade_device_facts {
    char id[64]; /* "opencl:0" */
    char name[128];
    char address[256];
    uint64_t memory_bytes;
};

/*
 * Like facade_device_find(), for a call that holds no lock; holds none afterwards. Does not open providers:
 * FACET_BAD_STATE if none is open.
 */
enum facet_status facade_device_look_up(struct facade_call *call, const char *uuid,
                                        struct facade_device_facts *ret_facts, struct facet_error *error);

/* ---- query.c: lists that providers return ---- */

struct facade_query {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint32_t device;
    const char *text; /* a partition's uuid */
};

/* One of the provider ABI's list operations; the query names the object whose list is asked for. */
typedef enum facet_status (*facade_lister)(const struct facade_query *query, void *items, uint32_t item_size,
                                           uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

enum facet_status facade_ask_devices(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                     struct facet_error *);
enum facet_status facade_ask_nodes(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                   struct facet_error *);
enum facet_status facade_ask_links(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                   struct facet_error *);
enum facet_status facade_ask_partitions(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                        struct facet_error *);
enum facet_status facade_ask_processes(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                       struct facet_error *);
enum facet_status facade_ask_link_metrics(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                          struct facet_error *);
enum facet_status facade_ask_container(const struct facade_query *, void *, uint32_t, uint32_t, uint32_t *,
                                       struct facet_error *);

struct facade_query facade_query_of(const struct facade_device *device);

/* Fetches all items, even if the list grows meanwhile. The caller frees *ret_items. */
enum facet_status facade_fetch(facade_lister lister, const struct facade_query *query, uint32_t item_size,
                               void **ret_items, uint32_t *ret_count, struct facet_error *error);

/* Frees the object of a pointer that leaves its scope. */
static inline void facade_cleanup_free(void *pointer)
{
    void **place = pointer;

    free(*place);
}
#define FACADE_CLEANUP_FREE __attribute__((cleanup(facade_cleanup_free)))

#endif
