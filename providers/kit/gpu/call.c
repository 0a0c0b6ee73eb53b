/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking and queueing a library's work. Never: calls the library. */
#include "call.h"

#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

static enum facet_status check_operands(const struct gpu_machine *machine, const struct gpu_context *context,
                                        const struct kit_math_operands *operands, struct facet_error *error)
{
    for (uint32_t i = 0; i < operands->count; i++) {
        const struct kit_math_operand *operand = &operands->list[i];

        if (!gpu_context_holds(machine, context, operand->address, operand->bytes))
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "%s: %" PRIu64 " bytes at 0x%" PRIx64 ": expected memory of the context",
                                  operand->name, operand->bytes, operand->address);
    }
    return FACET_OK;
}

enum facet_status gpu_call_queue(struct gpu_machine *machine, uint64_t number, uint64_t stream_number,
                                 gpu_call_func run, const char *name, const void *data, size_t bytes,
                                 const struct kit_math_operands *operands, struct facet_error *error)
{
    struct gpu_command *command = gpu_command_new(GPU_CALL, data, bytes);
    struct gpu_context *context;
    struct gpu_stream *stream;

    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an operation");
    command->run = run;
    command->operands = *operands;
    FACET_KIT_TEXT(command->launch.kernel, name);
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);
    if (status == FACET_OK) {
        status = check_operands(machine, context, operands, error);
        if (status == FACET_OK)
            gpu_stream_queue(&machine->executor, stream, command);
        gpu_stream_leave(machine, context);
    }
    if (status != FACET_OK)
        free(command);
    return status;
}
