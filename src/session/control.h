/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between a session and its child that are not calls: the child's progress, and its end.
 *
 * Owns: the packets, of fixed size, on the sockets that the child and its supervisor are started with.
 * Never: carries a call; calls go through channels, whose sockets are handed over here.
 */
#ifndef FACET_SESSION_CONTROL_H
#define FACET_SESSION_CONTROL_H

#include <facet/provider.h>

/* The descriptors with which the child and its supervisor start: each has a socket to the session. */
#define FACET_CONTROL_FD    3
#define FACET_SUPERVISOR_FD 4

#define FACET_HOST_PROGRAM "facet-provider-host"

/* From the session. */
enum facet_order {
    FACET_ORDER_CHANNEL = 1, /* a socket comes with it: serve its calls, in a thread of its own */
    FACET_ORDER_CLOSE = 2,   /* close the provider and end */
};

struct facet_order_packet {
    uint32_t order; /* enum facet_order */
};

/* From the child. */
enum facet_report {
    FACET_REPORT_LOADING,
    FACET_REPORT_ENTERING,
    FACET_REPORT_OPENING,
    FACET_REPORT_OPENED,  /* the provider's description is below */
    FACET_REPORT_REFUSED, /* `error` says why; the child ends */
    FACET_REPORT_CLOSED,  /* the child ends */
};

struct facet_report_packet {
    uint32_t size;   /* of this struct: both ends must be of one build */
    uint32_t report; /* enum facet_report */
    struct facet_error error;
    uint16_t abi_major, abi_minor; /* negotiated */
    uint64_t traits;
    char name[64], version[64], description[160];
};

/* Any byte that the session sends to the supervisor orders it to end the child at once. */

/* From the supervisor, before it ends: how the child ended. */
struct facet_end_packet {
    int32_t code;   /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; 0: it could not be started */
    int32_t status; /* its exit status, the signal, or the errno */
};

#endif
