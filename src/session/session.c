/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: sessions with a provider in a child process or in this one. Never: behaves differently for the two. */
#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"
#include "session/client.h"
#include "session/load.h"
#include "session/proxy.h"
#include "session/tables.h"

#define OPEN_DEADLINE_NS (10 * FACET_NS_PER_S)
#define CALL_DEADLINE_NS (5 * FACET_NS_PER_S)

struct facet_session {
    char *path;
    struct facet_session_options options; /* with the defaults filled in */
    struct facet_tables tables;
    struct facet_provider_instance *instance;
    bool open;                         /* was opened, so it is to be closed */
    struct facet_report_packet opened; /* in a child: its description of itself, which the tables borrow */
    struct facet_client client;        /* in a child */
};

static bool in_process(const struct facet_session *session)
{
    return session->options.place == FACET_SESSION_IN_PROCESS;
}

/* An older caller's options are shorter; the missing options get their defaults. */
static enum facet_status take_options(const struct facet_session_options *options, struct facet_session_options *copy,
                                      struct facet_error *error)
{
    *copy = (struct facet_session_options){.size = sizeof *copy};
    FACET_NEED_KNOWN("options", options, error);
    if (options)
        FACET_SIZED_TAKE(copy, options);
    if (options && options->size < sizeof options->size)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "options", "size %u: expected at least %zu",
                                    options->size, sizeof options->size);
    FACET_NEED_RESERVED("options", copy, error);
    if (copy->place != FACET_SESSION_CHILD && copy->place != FACET_SESSION_IN_PROCESS)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "place", "place %u: expected %d or %d", copy->place,
                                    FACET_SESSION_CHILD, FACET_SESSION_IN_PROCESS);
    if (copy->open_deadline_ns == 0)
        copy->open_deadline_ns = OPEN_DEADLINE_NS;
    if (copy->call_deadline_ns == 0)
        copy->call_deadline_ns = CALL_DEADLINE_NS;
    if (copy->abi_minor == 0)
        copy->abi_minor = FACET_PROVIDER_ABI_MINOR;
    return FACET_OK;
}

static enum facet_status refuse_null(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
}

static void free_session(struct facet_session *session)
{
    if (!in_process(session))
        facet_client_destroy(&session->client);
    free(session->path);
    free(session);
}

static enum facet_status make_session(const char *path, const struct facet_session_options *options,
                                      struct facet_session **ret_session, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_session *session = calloc(1, sizeof *session);
    FACET_CLEANUP_FREE char *copy = strdup(path);

    if (!session || !copy)
        return facet_error_errno(error, ENOMEM, "no memory for a session with provider %s", path);
    enum facet_status status = take_options(options, &session->options, error);
    if (status == FACET_OK && !in_process(session)) {
        session->client.path = copy;
        session->client.abi_minor = session->options.abi_minor;
        session->client.open_deadline_ns = session->options.open_deadline_ns;
        session->client.call_deadline_ns = session->options.call_deadline_ns;
        status = facet_client_init(&session->client, error);
    }
    if (status != FACET_OK)
        return status;
    session->path = FACET_TAKE_PTR(copy);
    *ret_session = FACET_TAKE_PTR(session);
    return FACET_OK;
}

enum facet_status facet_session_start(const char *path, const struct facet_session_options *options,
                                      struct facet_session **ret_session, struct facet_error *error)
{
    struct facet_session *session = NULL;

    if (!path)
        return refuse_null("path", error);
    enum facet_status status = make_session(path, options, &session, error);
    if (status != FACET_OK)
        return status;
    if (!in_process(session))
        status = facet_client_start(&session->client, error);
    if (status == FACET_OK)
        *ret_session = session;
    else
        free_session(session);
    return status;
}

static enum facet_status open_here(struct facet_session *session, struct facet_error *error)
{
    const struct facet_provider *provider = NULL;
    facet_provider_entry_func entry = NULL;
    enum facet_status status = facet_load_object(session->path, &entry, error);

    if (status == FACET_OK)
        status = facet_load_enter(entry, session->options.abi_minor, &provider, error);
    if (status != FACET_OK)
        return status;
    facet_tables_fill(&session->tables, provider, session->options.abi_minor);
    return facet_load_open(&session->tables.provider, &session->instance, error);
}

static void describe_provider(struct facet_session *session)
{
    const struct facet_report_packet *opened = &session->opened;
    const struct facet_provider provider = {.abi_major = opened->abi_major,
                                            .abi_minor = opened->abi_minor,
                                            .name = opened->name,
                                            .version = opened->version,
                                            .description = opened->description,
                                            .traits = opened->traits};

    facet_proxy_fill(&session->tables, &provider);
    session->instance = (struct facet_provider_instance *)&session->client;
}

enum facet_status facet_session_await_open(struct facet_session *session, struct facet_error *error)
{
    enum facet_status status = in_process(session)
                                   ? open_here(session, error)
                                   : facet_client_wait_until_open(&session->client, &session->opened, error);

    session->open = status == FACET_OK;
    if (session->open && !in_process(session))
        describe_provider(session);
    return status;
}

enum facet_status facet_session_open(const char *path, const struct facet_session_options *options,
                                     struct facet_session **ret_session, struct facet_error *error)
{
    struct facet_session *session = NULL;

    if (!ret_session)
        return refuse_null("ret_session", error);
    enum facet_status status = facet_session_start(path, options, &session, error);
    if (status != FACET_OK)
        return status;
    status = facet_session_await_open(session, error);
    if (status == FACET_OK)
        *ret_session = session;
    else
        facet_session_close(session);
    return status;
}

enum facet_status facet_session_end(struct facet_session *session, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (!session || facet_origin_is_parent(&session->client.origin))
        return status; /* a child's copy stays as it is: the provider is the parent's */
    if (session->open && in_process(session))
        session->tables.device.close(session->instance);
    if (!in_process(session))
        status = facet_client_close(&session->client, error);
    free_session(session);
    return status;
}

void facet_session_close(struct facet_session *session)
{
    facet_session_end(session, NULL);
}

void facet_session_abandon(struct facet_session *session, const char *why)
{
    if (!in_process(session))
        facet_client_lose(&session->client, session->client.child_number, why, NULL);
}

const struct facet_provider *facet_session_provider(const struct facet_session *session)
{
    return &session->tables.provider;
}

struct facet_provider_instance *facet_session_instance(const struct facet_session *session)
{
    return session->instance;
}

enum facet_session_place facet_session_place(const struct facet_session *session)
{
    return session->options.place;
}

bool facet_session_alive(struct facet_session *session, struct facet_error *error)
{
    return in_process(session) || facet_client_alive(&session->client, error);
}

/* Refuses another provider or version: callers may still hold texts and tables that the session gave them. */
static enum facet_status check_same_provider(const struct facet_session *session,
                                             const struct facet_report_packet *opened, struct facet_error *error)
{
    if (strcmp(opened->name, session->opened.name) == 0 && opened->abi_minor == session->opened.abi_minor)
        return FACET_OK;
    return facet_error_set(error, FACET_ABI_MISMATCH, "was %s of ABI %u.%u and is %s of ABI %u.%u now",
                           session->opened.name, session->opened.abi_major, session->opened.abi_minor, opened->name,
                           opened->abi_major, opened->abi_minor);
}

enum facet_status facet_session_restart(struct facet_session *session, struct facet_error *error)
{
    struct facet_report_packet opened;
    struct facet_error reason;

    if (in_process(session))
        return facet_error_set(error, FACET_BAD_STATE, "a provider in this process cannot be opened again");
    if (facet_client_alive(&session->client, NULL))
        return FACET_OK;
    enum facet_status status = facet_client_start(&session->client, error);
    if (status == FACET_OK)
        status = facet_client_wait_until_open(&session->client, &opened, error);
    if (status != FACET_OK)
        return status;
    status = check_same_provider(session, &opened, &reason);
    if (status != FACET_OK) {
        facet_client_lose(&session->client, session->client.child_number, reason.message, NULL);
        facet_error_set(error, status, "%s", reason.message);
    }
    return status;
}
