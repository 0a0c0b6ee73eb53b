/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: calls with a device that does not exist, of every operation that takes a device.
 * Never: names an operation: FACET_OPERATIONS lists the operations, so that a new one is checked, or this file does not
 * compile.
 */
#include <inttypes.h>
#include <string.h>

#include "conformance/operation.h"

/* Room for any answer that is not a list. */
enum { ANSWER_SIZE = 512 };

/*
 * Fillers for the other arguments, which do not matter, because a provider checks the device first. A filler is chosen
 * by the argument's kind; for a U32, which has several meanings in the ABI, also by its name. `answer` is the room for
 * outputs.
 */
#define FILLER(kind, ...)             FILLER_##kind(__VA_ARGS__)
#define FILLER_U32(name)              , FILLER_U32_##name
#define FILLER_U32_device             device
#define FILLER_U32_start              FACET_PLACEMENT_ANY
#define FILLER_U32_milli              FACET_MILLI_WHOLE / 10
#define FILLER_U32_policy             FACET_SCHEDULE_FAIR
#define FILLER_U32_preempt            1
#define FILLER_U64(name)              , 1 << 20
#define FILLER_TEXT(name)             , FACET_CHECK_WORKER
#define FILLER_TEXT_OR_NULL(name)     , NULL
#define FILLER_FD(name)               , -1
#define FILLER_RET_U32(name)          , answer
#define FILLER_RET_U64(name)          , answer
#define FILLER_RET_STRUCT(name, type) , answer
#define FILLER_RET_ITEMS(name, type)  , NULL, sizeof(struct type), 0, answer
#define FILLER_RET_TEXT(name)         , NULL, 0, answer

/* How many bytes an operation may write to its outputs. */
#define ROOM(kind, ...) ROOM_##kind(__VA_ARGS__)
#define ROOM_U32(name)
#define ROOM_U64(name)
#define ROOM_TEXT(name)
#define ROOM_TEXT_OR_NULL(name)
#define ROOM_FD(name)
#define ROOM_RET_U32(name)          +sizeof(uint32_t)
#define ROOM_RET_U64(name)          +sizeof(uint64_t)
#define ROOM_RET_STRUCT(name, type) +sizeof(struct type)
#define ROOM_RET_ITEMS(name, type)  +sizeof(uint32_t)
#define ROOM_RET_TEXT(name)         +sizeof(uint32_t)

/* IF_DEVICE(M, table, op, arguments) is M(table, op, arguments) if the first argument is a device; otherwise nothing.
 */
#define IF_DEVICE(M, ...)        JOIN(IF_, FIRST_OF(__VA_ARGS__))(M, __VA_ARGS__)
#define FIRST_OF(table, op, ...) HEAD_OF(__VA_ARGS__, )
#define HEAD_OF(first, ...)      FIRST first
#define FIRST(kind, name, ...)   FIRST_##kind##_##name
#define JOIN(a, b)               JOIN_(a, b)
#define JOIN_(a, b)              a##b
#define FIRST_U32_device         CALL
#define FIRST_U64_context        NOTHING
#define FIRST_U64_after          NOTHING
#define FIRST_RET_ITEMS_items    NOTHING
#define FIRST_PIDS_pids          NOTHING
#define IF_CALL(M, ...)          M(__VA_ARGS__)
#define IF_NOTHING(M, ...)

#define DEFINE(table, op, ...)                                                                                         \
    static enum facet_status call_##table##_##op(struct facet_check *check, uint32_t device, void *answer,             \
                                                 struct facet_error *error)                                            \
    {                                                                                                                  \
        return check->table##_ops.op(check->instance FACET_EACH(FILLER, __VA_ARGS__), error);                          \
    }
#define DEFINE_IF_DEVICE(...) IF_DEVICE(DEFINE, __VA_ARGS__)
FACET_OPERATIONS(DEFINE_IF_DEVICE)

struct absent_call {
    const char *table;
    enum facet_operation_id operation;
    size_t room;
    enum facet_status (*run)(struct facet_check *check, uint32_t device, void *answer, struct facet_error *error);
};

#define LIST(table, op, ...)                                                                                           \
    {#table, FACET_OPERATION_##table##_##op, 0 FACET_EACH(ROOM, __VA_ARGS__), call_##table##_##op},
#define LIST_IF_DEVICE(...) IF_DEVICE(LIST, __VA_ARGS__)
static const struct absent_call calls[] = {FACET_OPERATIONS(LIST_IF_DEVICE)};

enum { CALLS = sizeof calls / sizeof calls[0] };

static void judge_absent_call(struct facet_check *check, const struct absent_call *call, uint32_t device,
                              struct facet_error *error)
{
    _Alignas(max_align_t) unsigned char answer[ANSWER_SIZE];

    facet_check_poison(answer, call->room);
    enum facet_status got = call->run(check, device, answer, error);
    bool unsupported = got == FACET_UNSUPPORTED && !facet_check_is_promised(check, call->operation);
    facet_check_refused(check, unsupported ? FACET_UNSUPPORTED : FACET_NOT_FOUND, got, call->room ? answer : NULL,
                        call->room);
}

void facet_check_absent_device(struct facet_check *check, const char *table)
{
    for (int i = 0; i < CALLS; i++) {
        const char *name = facet_check_operation_name(calls[i].operation);

        if (strcmp(calls[i].table, table) != 0 || !facet_check_is_offered(check, calls[i].operation))
            continue;
        facet_check_begin(check, "%s: a device that is not there is not found", name);
        judge_absent_call(check, &calls[i], check->device_count, &check->error);
        facet_check_begin(check, "%s: device %" PRIu32 " is not found, also without an error struct", name, UINT32_MAX);
        judge_absent_call(check, &calls[i], UINT32_MAX, NULL);
    }
}
