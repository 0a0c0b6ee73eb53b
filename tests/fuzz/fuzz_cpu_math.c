/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing kit_math_check() with any bytes as struct facet_math. The operation is refused, or its operands are
 * within the ABI's bounds and no default is left to be computed.
 */
#include <facet/provider.h>

#include "math_check.h"

#include "fuzz.h"

#define BYTES_MOST (UINT64_C(1) << 48) /* of an operand, by the ABI */

static void check_accepted(const struct facet_math *operation, const struct kit_math_operands *operands)
{
    struct kit_math_operands again;
    struct facet_error error = {0};
    struct facet_math same;

    FUZZ_ASSERT(operation->size == sizeof *operation && operation->operation < FACET_MATH_KINDS &&
                operation->type < FACET_MATH_TYPES);
    FUZZ_ASSERT(operands->count >= 2 && operands->count <= KIT_MATH_OPERANDS);
    for (uint32_t i = 0; i < operands->count; i++)
        FUZZ_ASSERT(operands->list[i].name && operands->list[i].bytes >= 1 && operands->list[i].bytes <= BYTES_MOST);
    FUZZ_ASSERT(kit_math_check(operation, &same, &again, &error) == FACET_OK);
    FUZZ_ASSERT(memcmp(operation, &same, sizeof same) == 0 && again.count == operands->count);
    for (uint32_t i = 0; i < again.count; i++)
        FUZZ_ASSERT(again.list[i].address == operands->list[i].address &&
                    again.list[i].bytes == operands->list[i].bytes);
}

static void check_refused(enum facet_status status, const struct facet_error *error)
{
    FUZZ_ASSERT(status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE || status == FACET_UNSUPPORTED);
    FUZZ_ASSERT(error->status == status && error->message[0] && memchr(error->message, '\0', sizeof error->message));
}

/* A copy of exactly as many bytes as the member `size` says, so that the sanitizer sees a read past them. */
static struct facet_math *operation_of(const uint8_t *data, size_t size)
{
    struct facet_math whole = {0};

    memcpy(&whole, data, size < sizeof whole ? size : sizeof whole);
    size_t room = whole.size < sizeof whole ? whole.size : sizeof whole;
    struct facet_math *operation = malloc(room < sizeof whole.size ? sizeof whole.size : room);
    FUZZ_ASSERT(operation);
    memcpy(operation, &whole, room < sizeof whole.size ? sizeof whole.size : room);
    return operation;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kit_math_operands operands, untouched_operands;
    struct facet_math *operation = operation_of(data, size), taken, untouched;
    struct facet_error error = {0};

    memset(&taken, 0x5a, sizeof taken);
    memset(&operands, 0x5a, sizeof operands);
    untouched = taken;
    untouched_operands = operands;
    enum facet_status status = kit_math_check(operation, &taken, &operands, &error);
    if (status == FACET_OK) {
        check_accepted(&taken, &operands);
    } else {
        check_refused(status, &error);
        FUZZ_ASSERT(memcmp(&taken, &untouched, sizeof taken) == 0);
        FUZZ_ASSERT(memcmp(&operands, &untouched_operands, sizeof operands) == 0);
    }
    free(operation);
    return 0;
}
