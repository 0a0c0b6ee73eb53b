/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: turning a decoded call into a call of the provider. Never: names an operation; operations.h lists all. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "session/call.h"
#include "session/serve.h"
#include "session/transport.h"

/* Declares a variable per argument first, because C leaves the order of evaluating a function's arguments open. */
#define NAME(kind, name, ...)   const struct facet_argument *name = next++;
#define PASS(kind, name, ...)   PASS_##kind(name)
#define PASS_U8(name)           , (uint8_t)name->number
#define PASS_U32(name)          , (uint32_t)name->number
#define PASS_U64(name)          , name->number
#define PASS_BYTES(name)        , name->number
#define PASS_TIMEOUT(name)      , name->number
#define PASS_TEXT(name)         , name->input
#define PASS_TEXT_OR_NULL(name) , name->input
#define PASS_FD(name)           , name->fd
#define PASS_PIDS(name)         , name->input, (uint32_t)name->number
#define PASS_DATA(name)         , name->input, name->number
#define PASS_LAUNCH(name)       , name->input, name->input_bytes
#define PASS_STRUCT(name)       , name->input
#define PASS_RET_U32(name)      , name->output
#define PASS_RET_U64(name)      , name->output
#define PASS_RET_STRUCT(name)   , name->output
#define PASS_RET_ITEMS(name)    , name->output, name->size, (uint32_t)name->number, name->ret_count
#define PASS_RET_TEXT(name)     , name->output, (uint32_t)name->number, name->ret_count
#define PASS_RET_DATA(name)     , name->number, name->output

#define SERVE(table, operation, ...)                                                                                   \
    static enum facet_status serve_##table##_##operation(const struct facet_provider *provider,                        \
                                                         struct facet_provider_instance *instance,                     \
                                                         const struct facet_argument *next, struct facet_error *error) \
    {                                                                                                                  \
        FACET_EACH(NAME, __VA_ARGS__)                                                                                  \
        return provider->table->operation(instance FACET_EACH(PASS, __VA_ARGS__), error);                              \
    }
FACET_OPERATIONS(SERVE)

typedef enum facet_status (*serve_func)(const struct facet_provider *provider, struct facet_provider_instance *instance,
                                        const struct facet_argument *arguments, struct facet_error *error);

#define ENTRY(table, operation, ...) [FACET_OPERATION_##table##_##operation] = serve_##table##_##operation,
static const serve_func serve[FACET_OPERATION_COUNT] = {FACET_OPERATIONS(ENTRY)};

enum facet_status facet_call_make(const struct facet_call *call, const struct facet_provider *provider,
                                  struct facet_provider_instance *instance, struct facet_error *error)
{
    return serve[call->operation](provider, instance, call->arguments, error);
}

/* Maps the file that holds the call's bulk data, if it has any. False when the file cannot be mapped. */
static bool map_bulk(struct facet_call *call, int fd, const struct facet_argument **ret_bulk, void **ret_memory)
{
    enum facet_parameter_kind kind;
    const struct facet_argument *bulk = facet_call_bulk(call, &kind);

    *ret_bulk = bulk;
    if (!bulk)
        return true;
    void *memory = mmap(NULL, bulk->number, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    struct facet_argument *argument = &call->arguments[bulk - call->arguments];
    if (kind == FACET_KIND_DATA)
        argument->input = memory;
    else
        argument->output = memory;
    *ret_memory = memory;
    return true;
}

/* Makes the call that the message holds and writes its answer. False when the message is no call. */
static bool answer_call(struct facet_served *served, struct facet_wire_reader *request, int fd,
                        struct facet_wire_writer *writer)
{
    struct facet_error error = {0};
    FACET_CLEANUP_FREE void *room = NULL;
    const struct facet_argument *bulk;
    struct facet_call call;
    void *memory;

    if (!facet_call_decode(request, fd, &call))
        return false;
    if (!facet_call_make_room(&call, &room) || !map_bulk(&call, fd, &bulk, &memory)) {
        facet_error_set(&error, FACET_NO_MEMORY, "no memory for a call in the provider's process");
        facet_call_encode_answer(&call, FACET_NO_MEMORY, &error, writer);
        return true;
    }
    pthread_rwlock_rdlock(&served->calls);
    enum facet_status status = facet_call_make(&call, served->provider, served->instance, &error);
    pthread_rwlock_unlock(&served->calls);
    facet_call_encode_answer(&call, status, &error, writer);
    if (bulk)
        munmap(memory, bulk->number);
    return !writer->failed;
}

/* Serves one call. False when the channel is closed, or the message is no call. */
static bool serve_one(int channel, struct facet_served *served)
{
    FACET_CLEANUP_FREE uint8_t *bytes = NULL;
    FACET_CLEANUP_FD int fd = -1;
    struct facet_wire_writer writer = {0};
    size_t size;
    enum facet_transport result =
        facet_transport_receive(channel, FACET_TRANSPORT_FOREVER, NULL, 0, &bytes, &size, &fd);

    if (result != FACET_TRANSPORT_OK)
        return false;
    struct facet_wire_reader reader = {.bytes = bytes, .left = size};
    bool sent =
        answer_call(served, &reader, fd, &writer) &&
        facet_transport_send(channel, writer.bytes, writer.size, -1, FACET_TRANSPORT_FOREVER) == FACET_TRANSPORT_OK;
    facet_wire_free(&writer);
    return sent;
}

void facet_serve_channel(int channel, struct facet_served *served)
{
    while (serve_one(channel, served))
        ;
    close(channel);
}
