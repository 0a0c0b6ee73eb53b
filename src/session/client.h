/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's side of a provider in a child process.
 *
 * Owns: the child, the channels to it, deadlines, and the reason why it was lost.
 * Never: uses an answer unchecked (call.h checks it), or leaves a child running that broke off or answered too late.
 *
 * A call takes a channel, which is a socket of its own with a thread of the child at its other end, so that calls do
 * not wait for each other. Channels are made when they are needed, up to FACET_CLIENT_CHANNELS; then callers wait.
 *
 * Thread rule: any number of threads may call facet_client_call() and facet_client_alive(); the other functions are for
 * one thread at a time.
 */
#ifndef FACET_SESSION_CLIENT_H
#define FACET_SESSION_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "base/forked.h"
#include "session/call.h"
#include "session/child.h"
#include "session/control.h"

enum { FACET_CLIENT_CHANNELS = 16 };

struct facet_client_channel {
    int fd;                     /* -1: none yet */
    bool busy;                  /* a call is under way */
    unsigned child;             /* the number of the child that the channel leads to, from 1 */
    const char *operation_name; /* the operation under way */
};

struct facet_client {
    struct facet_origin origin;
    const char *path; /* borrowed */
    uint16_t abi_minor;
    uint64_t open_deadline_ns, call_deadline_ns;

    uint64_t opened_by_ns; /* the deadline for the child to open the provider */

    pthread_mutex_t lock;   /* of everything below */
    pthread_cond_t changed; /* a channel is free, or the child is lost */
    struct facet_child child;
    unsigned child_number; /* 0 before the first */
    bool open;             /* calls are possible; when not, `reason` says why */
    struct facet_error reason;
    struct facet_client_channel channels[FACET_CLIENT_CHANNELS];
};

/* The caller has zeroed `client`, and set its members from `path` to `call_deadline_ns`. Errors: FACET_NO_MEMORY. */
enum facet_status facet_client_init(struct facet_client *client, struct facet_error *error);
void facet_client_destroy(struct facet_client *client);

/* Starts a child, which opens the provider; facet_client_wait_until_open() waits for that, and returns the provider's
 * description. An error leaves no child. */
enum facet_status facet_client_start(struct facet_client *client, struct facet_error *error);
enum facet_status facet_client_wait_until_open(struct facet_client *client, struct facet_report_packet *ret_opened,
                                               struct facet_error *error);

/* Closes the provider and ends the child. Errors: FACET_INTERNAL (not closed as it should), FACET_TIMEOUT. */
enum facet_status facet_client_close(struct facet_client *client, struct facet_error *error);

enum facet_status facet_client_call(struct facet_client *client, const struct facet_call *call,
                                    struct facet_error *error);

/*
 * Gives up the child number `child`, unless it was given up already. `how` says what the child did wrong ("gave no
 * answer to device.health within 5 s"); it is NULL when the child ended by itself, and its exit status becomes the
 * reason. Returns FACET_DEVICE_LOST with the reason.
 */
enum facet_status facet_client_lose(struct facet_client *client, unsigned child, const char *how,
                                    struct facet_error *error);

/* A span of time for people, "5 s" or "300 ms". */
const char *facet_client_span(uint64_t ns, char *ret_text, size_t size);

/* Whether the provider can be called; checks that the child still lives. When it cannot, `error` says why. */
bool facet_client_alive(struct facet_client *client, struct facet_error *error);

#endif
