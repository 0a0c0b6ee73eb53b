/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to the daemon: HTTP/1.1 with JSON bodies over its Unix socket (docs/api.md).
 *
 * Owns: the connection, deadlines, the bound on an answer's size, turning the daemon's refusals into errors; the check
 * that the daemon is the user's own or root's, by the socket's folder and by the listening process.
 * Never: prints, except a note on a terminal while it waits for a slow daemon.
 *
 * Thread rule: one thread.
 */
#ifndef FACET_CLIENT_H
#define FACET_CLIENT_H

#include <stdbool.h>

#include <jansson.h>

#include <facet/error.h>

#include "base/paths.h"

struct http;

struct client {
    struct http *http;
    char folder[FACET_PATH_SIZE]; /* the socket's folder: a user who can change it could replace the socket */
    char socket_path[FACET_PATH_SIZE];
    bool may_start;             /* start a private daemon when none listens */
    bool unreachable;           /* the last call failed because no daemon listens */
    char advice[256];           /* the daemon's advice about its last refusal; empty when there is none */
    char environment_note[256]; /* how a daemon that chose a device differs in its environment; empty: it does not */
};

/* Finds the socket and an HTTP library (http.h); makes no connection yet. */
enum facet_status client_open(struct client *ret_client, bool may_start, struct facet_error *error);
void client_close(struct client *client);

/*
 * Makes one call. `body` and `ret_answer` may be NULL. The body stays the caller's; the caller releases *ret_answer.
 * A daemon's refusal becomes its status, argument and message, with the argument spelled as the command spells it.
 */
enum facet_status client_call(struct client *client, const char *method, const char *path, const json_t *body,
                              json_t **ret_answer, struct facet_error *error);

/* Makes a GET whose answer is a text and not JSON. The caller frees *ret_text. */
enum facet_status client_text(struct client *client, const char *path, char **ret_text, struct facet_error *error);

/* client_call() on `folder` + REF + `suffix`, with REF escaped: "/v1/reservations/", "job 7", "". */
enum facet_status client_call_in(struct client *client, const char *method, const char *folder, const char *ref,
                                 const char *suffix, const json_t *body, json_t **ret_answer,
                                 struct facet_error *error);

/* client_call() on "/v1/vgpus/REF" + `suffix`. */
enum facet_status client_call_vgpu(struct client *client, const char *method, const char *ref, const char *suffix,
                                   const json_t *body, json_t **ret_answer, struct facet_error *error);

static inline void client_cleanup_json(json_t **json)
{
    json_decref(*json);
}
#define CLIENT_CLEANUP_JSON __attribute__((cleanup(client_cleanup_json)))
#define CLIENT_CLEANUP      __attribute__((cleanup(client_close)))

#endif
