/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the users of slices, and streams on them. Never: holds the executor's lock while the driver is called. */
#include "slice.h"

#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

enum facet_status gpu_slice_new(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle, uint32_t units,
                                struct gpu_slice **ret_slice, struct facet_error *error)
{
    struct gpu_slice *slice = calloc(1, sizeof *slice);

    if (!slice) {
        machine->driver->drop_slice(machine, device, handle);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a part of the compute units");
    }
    *slice = (struct gpu_slice){.handle = handle, .units = units, .users = 1};
    *ret_slice = slice;
    return FACET_OK;
}

void gpu_slice_drop(struct gpu_machine *machine, uint32_t device, struct gpu_slice *slice)
{
    if (!slice)
        return;
    pthread_mutex_lock(&machine->executor.lock);
    bool last = --slice->users == 0;
    pthread_mutex_unlock(&machine->executor.lock);
    if (!last)
        return;
    machine->driver->drop_slice(machine, device, slice->handle);
    free(slice);
}

enum facet_status gpu_device_enter(struct gpu_machine *machine, const struct gpu_context *context,
                                   struct facet_error *error)
{
    const struct gpu_slice *slice = context->worker->slice;

    return slice ? machine->driver->enter_slice(machine, context->device, slice->handle, error)
                 : machine->driver->enter(machine, context->device, error);
}

/* --- streams --- */

/* Called with the executor's lock: the slice for the context's streams now; NULL: the whole device. */
static struct gpu_slice *slice_of(const struct gpu_context *context)
{
    return context->bound ? context->bound : context->worker->slice;
}

bool gpu_stream_needs_move(const struct gpu_stream *stream)
{
    return stream->slice != slice_of(stream->context);
}

enum facet_status gpu_stream_open(struct gpu_machine *machine, struct gpu_context *context,
                                  gpu_stream_handle *ret_handle, struct gpu_slice **ret_slice,
                                  struct facet_error *error)
{
    const struct gpu_driver *driver = machine->driver;

    pthread_mutex_lock(&machine->executor.lock);
    struct gpu_slice *slice = slice_of(context);
    if (slice)
        slice->users++;
    pthread_mutex_unlock(&machine->executor.lock);
    enum facet_status status = slice ? driver->create_slice_stream(machine, slice->handle, ret_handle, error)
                                     : driver->create_stream(machine, ret_handle, error);
    if (status == FACET_OK)
        *ret_slice = slice;
    else
        gpu_slice_drop(machine, context->device, slice);
    return status;
}

void gpu_stream_close(struct gpu_machine *machine, uint32_t device, gpu_stream_handle handle, struct gpu_slice *slice)
{
    machine->driver->destroy_stream(machine, handle);
    gpu_slice_drop(machine, device, slice);
}

enum facet_status gpu_stream_move(struct gpu_machine *machine, struct gpu_stream *stream)
{
    struct gpu_slice *slice = NULL, *before = stream->slice;
    gpu_stream_handle handle = NULL, old = stream->handle;
    enum facet_status status = gpu_stream_open(machine, stream->context, &handle, &slice, NULL);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->executor.lock);
    stream->handle = handle;
    stream->slice = slice;
    pthread_mutex_unlock(&machine->executor.lock);
    gpu_stream_close(machine, stream->context->device, old, before);
    return FACET_OK;
}
