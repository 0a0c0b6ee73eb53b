/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: clSVMAlloc, clSVMFree and the queued free. Never: frees memory without a call of the program. */
#include "svm.h"

#include <stdlib.h>

#include "layer.h"
#include "objects.h"

#define SMALL_BYTES 64u /* size of a probe */

bool facet_cl_pointer_bind(void *pointer, facet_cl_charge charge)
{
    if (!pointer) {
        facet_cl_charge_drop(charge);
        return true;
    }
    return facet_cl_map_put(FACET_CL_POINTERS, pointer, charge, NULL);
}

facet_cl_charge facet_cl_pointer_unbind(const void *pointer)
{
    facet_cl_charge charge = 0;

    facet_cl_map_take(FACET_CL_POINTERS, pointer, &charge);
    return charge;
}

/* clSVMAlloc() returns no error code, so the probe only decides whether the refusal counts as the quota's. */
static void refuse_svm(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    void *probe = facet_cl_target.clSVMAlloc(context, flags, size < SMALL_BYTES ? size : SMALL_BYTES, alignment);

    if (probe)
        facet_cl_target.clSVMFree(context, probe);
    facet_cl_charge_refuse(probe ? CL_SUCCESS : CL_INVALID_VALUE, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

void *facet_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    enum facet_cl_admission admission;
    facet_cl_charge charge;

    admission = facet_cl_charge_try(size, &charge);
    if (admission == FACET_CL_OVER_QUOTA)
        refuse_svm(context, flags, size, alignment);
    if (admission != FACET_CL_CHARGED)
        return NULL;

    void *pointer = facet_cl_target.clSVMAlloc(context, flags, size, alignment);
    if (facet_cl_pointer_bind(pointer, charge))
        return pointer;
    facet_cl_target.clSVMFree(context, pointer);
    facet_cl_charge_drop(charge);
    return NULL;
}

void facet_clSVMFree(cl_context context, void *pointer)
{
    facet_cl_charge charge = facet_cl_pointer_unbind(pointer);

    facet_cl_target.clSVMFree(context, pointer);
    facet_cl_charge_drop(charge);
}

/* The charges of one queued free, dropped when its command is complete. */
struct queued_free {
    cl_uint count;
    facet_cl_charge charges[];
};

static void CL_CALLBACK on_freed(cl_event event, cl_int status, void *user_data)
{
    struct queued_free *queued = user_data;

    for (cl_uint i = 0; i < queued->count; i++)
        facet_cl_charge_drop(queued->charges[i]);
    free(queued);
}

static struct queued_free *collect_freed(cl_uint count, void *pointers[])
{
    struct queued_free *queued = malloc(sizeof *queued + count * sizeof queued->charges[0]);

    if (queued) {
        queued->count = count;
        for (cl_uint i = 0; i < count; i++)
            queued->charges[i] = facet_cl_pointer_unbind(pointers[i]);
    }
    return queued;
}

/* The command was not queued, so the pointers stay valid. The map has room for them: they were just removed from it. */
static void restore_charges(struct queued_free *queued, void *pointers[])
{
    for (cl_uint i = 0; i < queued->count; i++)
        if (queued->charges[i])
            facet_cl_map_put(FACET_CL_POINTERS, pointers[i], queued->charges[i], NULL);
    free(queued);
}

cl_int facet_clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
                              void(CL_CALLBACK *pfn_free)(cl_command_queue, cl_uint, void *[], void *), void *user_data,
                              cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    cl_event own_event = NULL, *event_pointer = event ? event : &own_event;

    /* With a callback the program itself frees the memory, by clSVMFree, which is hooked. */
    if (pfn_free || !pointers || !count)
        return facet_cl_target.clEnqueueSVMFree(queue, count, pointers, pfn_free, user_data, num_waits, waits, event);

    struct queued_free *queued = collect_freed(count, pointers);
    if (!queued)
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result =
        facet_cl_target.clEnqueueSVMFree(queue, count, pointers, pfn_free, user_data, num_waits, waits, event_pointer);
    if (result != CL_SUCCESS) {
        restore_charges(queued, pointers);
        return result;
    }
    /* If the driver refuses the callback, the charge stays for good. */
    if (facet_cl_target.clSetEventCallback(*event_pointer, CL_COMPLETE, on_freed, queued) != CL_SUCCESS)
        free(queued);
    if (!event)
        facet_cl_target.clReleaseEvent(own_event);
    return CL_SUCCESS;
}
