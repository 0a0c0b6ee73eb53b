/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request that creates or changes a vGPU (docs/api.md, REQUEST).
 *
 * Owns: the members, their types and ranges, and the refusal of everything else.
 * Never: knows which devices or vGPUs exist.
 *
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACETD_REQUEST_H
#define FACETD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/limits.h>

#include "base/label.h"

/* Bodies above this are refused before they are read as JSON. */
#define REQUEST_BODY_MAX ((size_t)64 * 1024)

/* Bits of `present`, and of what a call allows. */
enum request_member {
    REQUEST_NAME = 1u << 0,
    REQUEST_DEVICE = 1u << 1,
    REQUEST_MEMORY_LIMIT = 1u << 2,
    REQUEST_COMPUTE_REQUEST = 1u << 3,
    REQUEST_COMPUTE_LIMIT = 1u << 4,
    REQUEST_MODE = 1u << 5,
    REQUEST_PRIORITY = 1u << 6,
    REQUEST_EPHEMERAL = 1u << 7,
    REQUEST_TEMPLATE = 1u << 8,
    REQUEST_IDLE_FREEZE = 1u << 9,
    REQUEST_RESERVATION = 1u << 10,
    REQUEST_OVERSUBSCRIBE = 1u << 11,
    REQUEST_LABELS = 1u << 12,
};
#define REQUEST_ALL     0x1fffu
#define REQUEST_COMPUTE (REQUEST_COMPUTE_REQUEST | REQUEST_COMPUTE_LIMIT)
#define REQUEST_CHANGE                                                                                                 \
    (REQUEST_MEMORY_LIMIT | REQUEST_COMPUTE | REQUEST_PRIORITY | REQUEST_IDLE_FREEZE | REQUEST_LABELS)

/* The longest idle time that freezes: a year. */
#define REQUEST_IDLE_FREEZE_MAX (365u * 24 * 3600)

/* The request. A member whose bit in `present` is clear was not named, and has its default. */
struct request {
    uint32_t present; /* enum request_member */
    char name[FACET_NAME_SIZE];
    char device[128];
    char template_id[32];
    struct facet_limits limits;
    bool ephemeral;
    uint32_t idle_freeze_s;
    char reservation[FACET_NAME_SIZE]; /* id or name of the reservation that the vGPU is in; empty: none */
    bool oversubscribe;
    char labels[FACET_LABELS_SIZE]; /* "key=value\n" for each; an empty value removes the label */
    uint32_t owner_uid;             /* the calling process's user; not a member of the body */
};

/*
 * Reads a JSON object of the members in `allowed` (enum request_member). Refuses text that is not one JSON object,
 * duplicate and unknown members, wrong types and values out of range, naming the member (FACET_INVALID_ARGUMENT,
 * FACET_OUT_OF_RANGE).
 */
enum facet_status request_parse(const char *body, size_t size, uint32_t allowed, struct request *ret_request,
                                struct facet_error *error);

/* A request that names nothing. */
void request_init(struct request *request);

/* The limits `base`, with those that the request names in their place. */
struct facet_limits request_apply(const struct request *request, const struct facet_limits *base);

#endif
