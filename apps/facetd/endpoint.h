/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the HTTP server and an endpoint. Each family of endpoints has a file of its own.
 *
 * Owns: the form of a call and of an answer.
 * Never: knows the HTTP library.
 *
 * An endpoint fills `ret_answer` and returns FACET_OK, or returns an error: the server makes the error's JSON and its
 * HTTP status. It runs on the thread of its connection, so that waiting for a provider delays no other call.
 */
#ifndef FACETD_ENDPOINT_H
#define FACETD_ENDPOINT_H

#include <jansson.h>

#include "registry.h"

/* The daemon's parts, which every endpoint may read. The struct does not change while the server runs. */
struct daemon {
    struct registry *registry;
    const struct facet_device_table *devices;
    struct sessions *sessions;
    struct events *events;
    struct measured *measured;
    struct audit *audit;
    uint64_t started_ns;
    bool private;
};

struct call {
    uint32_t uid;    /* of the calling process */
    const char *ref; /* the part of the path that names a vGPU or device; empty when the path has none */
    bool force;
    uint64_t after;     /* of events: only those with a higher number are wanted */
    const char *render; /* the requested form of a configuration; NULL: unchanged */
    const char *body;   /* not terminated */
    size_t body_size;
};

/* `http` is the HTTP status; exactly one of `json` (a reference) and `text` (Prometheus, to be freed) is set. */
struct answer {
    unsigned http;
    json_t *json;
    char *text;
};

typedef enum facet_status (*endpoint_func)(const struct daemon *daemon, const struct call *call,
                                           struct answer *ret_answer, struct facet_error *error);

enum facet_status endpoint_health(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error);
enum facet_status endpoint_metrics(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                   struct facet_error *error);

enum facet_status endpoint_devices(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                   struct facet_error *error);
enum facet_status endpoint_device(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error);
enum facet_status endpoint_events(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error);
enum facet_status endpoint_providers(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error);

enum facet_status endpoint_node(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                struct facet_error *error);

enum facet_status endpoint_measurements(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                        struct facet_error *error);

enum facet_status endpoint_reservation_list(const struct daemon *daemon, const struct call *call,
                                            struct answer *ret_answer, struct facet_error *error);
enum facet_status endpoint_reservation_create(const struct daemon *daemon, const struct call *call,
                                              struct answer *ret_answer, struct facet_error *error);
enum facet_status endpoint_reservation_show(const struct daemon *daemon, const struct call *call,
                                            struct answer *ret_answer, struct facet_error *error);
enum facet_status endpoint_reservation_release(const struct daemon *daemon, const struct call *call,
                                               struct answer *ret_answer, struct facet_error *error);

enum facet_status endpoint_vgpu_list(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error);
enum facet_status endpoint_vgpu_create(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error);
enum facet_status endpoint_vgpu_show(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error);
enum facet_status endpoint_vgpu_change(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error);
enum facet_status endpoint_vgpu_destroy(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                        struct facet_error *error);
enum facet_status endpoint_vgpu_freeze(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error);
enum facet_status endpoint_vgpu_resume(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error);

/* Answers with `json`, whose reference it takes; NULL means that memory ran out. */
static inline enum facet_status answer_json(unsigned http, json_t *json, struct answer *ret_answer,
                                            struct facet_error *error)
{
    if (!json)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the answer");
    *ret_answer = (struct answer){.http = http, .json = json};
    return FACET_OK;
}

#endif
