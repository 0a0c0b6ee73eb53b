/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's side of a provider in a child process.
 *
 * Owns: the child, the channels to it, deadlines, and the reason why it was lost.
 * Never: believes an answer (call.h checks it), or leaves a child running that broke off or came too late.
 *
 * A call takes a channel, which is a socket of its own with a thread of the child at its other end, so that calls do
 * not wait for each other. Channels are made when they are needed, and are few: beyond them, callers wait.
 *
 * Thread rule: facet_client_call() and facet_client_alive() by any number of threads; the others by one.
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
    unsigned child;             /* which child it leads to, counted from 1 */
    const char *operation_name; /* the operation under way */
};

struct facet_client {
    struct facet_origin origin;
    const char *path; /* borrowed */
    uint16_t abi_minor;
    uint64_t open_deadline_ns, call_deadline_ns;

    uint64_t opened_by_ns; /* until when the child must have opened the provider */

    pthread_mutex_t lock;   /* of everything below */
    pthread_cond_t changed; /* a channel is free, or the child is lost */
    struct facet_child child;
    unsigned child_number; /* 0 before the first */
    bool open;             /* calls are possible; when not, `reason` says why */
    struct facet_error reason;
    struct facet_client_channel channels[FACET_CLIENT_CHANNELS];
};

/* `client` is zeroed, except the settings, path to call_deadline_ns. Errors: FACET_NO_MEMORY and the like. */
enum facet_status facet_client_init(struct facet_client *client, struct facet_error *error);
void facet_client_destroy(struct facet_client *client);

/* Starts a child and lets it open the provider; facet_client_wait_until_open() waits until it did, and gives its
 * description. An error leaves no child. */
enum facet_status facet_client_start(struct facet_client *client, struct facet_error *error);
enum facet_status facet_client_wait_until_open(struct facet_client *client, struct facet_report_packet *ret_opened,
                                               struct facet_error *error);

/* Closes the provider and ends the child. Errors: FACET_INTERNAL, FACET_TIMEOUT when it did not close as it should. */
enum facet_status facet_client_close(struct facet_client *client, struct facet_error *error);

enum facet_status facet_client_call(struct facet_client *client, const struct facet_call *call,
                                    struct facet_error *error);

/*
 * Gives up the child number `child`, unless that was done already: `how` says what it did wrong ("gave no answer to
 * device.health within 5 s"), or is NULL when it broke off by itself and its end will tell. Returns FACET_DEVICE_LOST
 * with the reason.
 */
enum facet_status facet_client_lose(struct facet_client *client, unsigned child, const char *how,
                                    struct facet_error *error);

/* A span of time for people, "5 s" or "300 ms". */
const char *facet_client_span(uint64_t ns, char *ret_text, size_t size);

/* Whether it can be called; checks whether the child still lives. When not, `error` says why. */
bool facet_client_alive(struct facet_client *client, struct facet_error *error);

#endif
