/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of a snapshot's bytes, version 2, in the byte order of the machine that wrote it.
 *
 *     header
 *     per context:  saved_context
 *                   saved_pages  { saved_extent  contents }*  saved_extent of 0 bytes     per page object
 *                   saved_module  text                                                    per module
 *                   saved_stream  { saved_launch  arguments }*                            per stream
 *                   saved_reservation *    saved_mapping *
 *     SAVED_END
 *
 * Owns: the layout. Never: changes within a version.
 */
#ifndef FACET_SIM_ENGINE_SAVED_H
#define FACET_SIM_ENGINE_SAVED_H

#include "engine.h"

#define SAVED_MAGIC   "FACETSIM"
#define SAVED_VERSION 2u
#define SAVED_END     UINT64_C(0x444e452d54454341)

struct saved_header {
    char magic[8];
    uint32_t version;
    uint32_t contexts;
    char scope[FACET_WORKER_SIZE]; /* the worker whose contexts these are; empty: those of all workers */
};
FACET_STATIC_ASSERT(sizeof(struct saved_header) == 80, "format: header");

struct saved_context {
    uint64_t number;
    char worker[FACET_WORKER_SIZE];
    char partition_uuid[SIM_UUID_SIZE];
    char device_name[128]; /* together with the next three members the identity of the device */
    uint64_t device_memory_bytes;
    uint32_t device_units;
    uint32_t page_bytes;
    uint32_t device; /* index when it was saved */
    uint32_t reserved;
    uint64_t pages, modules, streams, reservations, mappings; /* the number of each that follows */
};
FACET_STATIC_ASSERT(sizeof(struct saved_context) == 328, "format: context");

struct saved_pages {
    uint64_t number, bytes;
    uint64_t destroyed; /* 1: it cannot be mapped anew, and will be freed with its last mapping */
};

/* Contents that no extent covers are zero. */
struct saved_extent {
    uint64_t offset, bytes;
};

struct saved_module {
    uint64_t number, bytes;
};

struct saved_stream {
    uint64_t number;
    uint64_t failed; /* the negated status of its first failed launch; 0: none failed */
    uint64_t launched, completed, busy_ns;
    uint64_t queued; /* launches that follow */
};

struct saved_launch {
    uint64_t remaining, elapsed_ns; /* as in struct sim_launch */
    struct facet_launch request;
};

struct saved_reservation {
    uint64_t address, bytes;
    uint64_t plain; /* 1: made by alloc: one mapping of a page object of its own covers it; 0: reserved */
};

struct saved_mapping {
    uint64_t address, bytes;
    uint64_t pages;  /* the number of the page object */
    uint64_t offset; /* in it */
};

#endif
