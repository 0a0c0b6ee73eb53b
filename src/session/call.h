/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of an operation as data: the parent's encoding of its arguments, and the child's side of the message.
 *
 * Owns: the kinds of arguments, the table of operations, encoding and decoding of requests and answers, and every check
 * of a received message.
 * Never: touches an output before the whole answer was found good; sends or receives (transport.h does).
 */
#ifndef FACET_SESSION_CALL_H
#define FACET_SESSION_CALL_H

#include <facet/provider.h>

#include "session/operations.h"
#include "session/structs.h"
#include "session/wire.h"

/* The kinds of operations.h. The kinds from FACET_KIND_RET_U32 on are outputs; an operation has at most one output. */
enum facet_parameter_kind {
    FACET_KIND_NONE,
    FACET_KIND_U8,
    FACET_KIND_U32,
    FACET_KIND_U64,
    FACET_KIND_BYTES,
    FACET_KIND_TIMEOUT,
    FACET_KIND_TEXT,
    FACET_KIND_TEXT_OR_NULL,
    FACET_KIND_FD,
    FACET_KIND_PIDS,
    FACET_KIND_DATA,
    FACET_KIND_LAUNCH,
    FACET_KIND_STRUCT,
    FACET_KIND_RET_U32,
    FACET_KIND_RET_U64,
    FACET_KIND_RET_STRUCT,
    FACET_KIND_RET_ITEMS,
    FACET_KIND_RET_TEXT,
    FACET_KIND_RET_DATA,
};

struct facet_parameter {
    uint8_t kind; /* enum facet_parameter_kind */
    const char *name;
    const struct facet_struct_type *type; /* of STRUCT, RET_STRUCT and RET_ITEMS */
};

struct facet_operation {
    const char *name; /* "partition.create" */
    struct facet_parameter parameters[FACET_ARGUMENTS_MAX];
};

/* By enum facet_operation_id. */
extern const struct facet_operation facet_operations[FACET_OPERATION_COUNT];

/* The value of one argument; which members count depends on its kind. */
struct facet_argument {
    uint64_t number;   /* the number; DATA, RET_DATA, LAUNCH: bytes; PIDS: how many; RET_ITEMS, RET_TEXT: capacity */
    const void *input; /* TEXT, PIDS, DATA, STRUCT, LAUNCH: the struct */
    const void *input_bytes; /* LAUNCH: the argument bytes */
    void *output;            /* RET_*: the caller's output */
    uint32_t *ret_count;
    uint32_t size; /* STRUCT, RET_STRUCT, RET_ITEMS: of one struct */
    int fd;        /* FD */
};

struct facet_call {
    enum facet_operation_id operation;
    struct facet_argument arguments[FACET_ARGUMENTS_MAX];
};

/* Data of at most this size travels in the message; larger data is passed as an open memory file (a memfd). */
#define FACET_CALL_INLINE_BYTES (UINT64_C(64) << 10)

/* Bounds beyond which an answer is garbage. */
#define FACET_CALL_ITEMS_MAX UINT32_C(65536)
#define FACET_CALL_TEXT_MAX  (UINT32_C(1) << 20)
/* No struct of the ABI is larger. */
#define FACET_CALL_STRUCT_SIZE 512
/* The most argument bytes of a launch, by the ABI. */
#define FACET_CALL_LAUNCH_MAX UINT32_C(4096)

/* Finds errors in the arguments without asking the provider, such as NULL where a value is required. */
enum facet_status facet_call_check(const struct facet_call *call, struct facet_error *error);

/*
 * The time that a call may take: the usual `timeout_ns`, and the extra time that its arguments imply. UINT64_MAX when
 * the sum is larger.
 */
uint64_t facet_call_timeout(const struct facet_call *call, uint64_t timeout_ns);

/* The argument whose data is too large for the message, or NULL. `ret_kind`: DATA (input), or RET_DATA (output). */
const struct facet_argument *facet_call_bulk(const struct facet_call *call, enum facet_parameter_kind *ret_kind);
/* The call's file argument (kind FD), or -1. */
int facet_call_fd(const struct facet_call *call);

/*
 * The room that a request asks the child to fill: no more of a struct than this library knows, and no more items or
 * text than an answer may hold (FACET_CALL_ITEMS_MAX, FACET_CALL_TEXT_MAX, FACET_WIRE_MAX).
 */
uint32_t facet_call_asked_size(const struct facet_parameter *parameter, const struct facet_argument *argument);
uint32_t facet_call_asked_capacity(const struct facet_parameter *parameter, const struct facet_argument *argument);

/* The parent's side. */
void facet_call_encode(const struct facet_call *call, struct facet_wire_writer *writer);
/*
 * Reads the answer, and on success writes the outputs of `call`. The status is the provider's own, with its error made
 * printable; or FACET_CORRUPT when the answer breaks a rule of the ABI. `ret_broken`: the message is no answer at all,
 * so nothing that the child sends can be trusted.
 */
enum facet_status facet_call_decode_answer(const struct facet_call *call, struct facet_wire_reader *reader,
                                           bool *ret_broken, struct facet_error *error);

/*
 * The child's side. A decoded call borrows from the message. Its outputs have no memory until facet_call_make_room()
 * allocates it; the caller frees that memory. `fd` is the file that came with the message, or -1.
 */
bool facet_call_decode(struct facet_wire_reader *reader, int fd, struct facet_call *ret_call);
bool facet_call_make_room(struct facet_call *call, void **ret_room);
/* Calls the operation of a provider whose tables are complete. */
enum facet_status facet_call_make(const struct facet_call *call, const struct facet_provider *provider,
                                  struct facet_provider_instance *instance, struct facet_error *error);
void facet_call_encode_answer(const struct facet_call *call, enum facet_status status, const struct facet_error *error,
                              struct facet_wire_writer *writer);

#endif
