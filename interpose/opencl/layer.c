/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the two entry points that the ICD loader calls, and the dispatch table that the loader gets from us.
 * Never: attaches, allocates or calls OpenCL: the loader may call this from a constructor.
 */
#include <CL/cl_layer.h>
#include <string.h>

#include "layer.h"
#include "process.h"

#define TABLE_ENTRIES ((cl_uint)(sizeof(cl_icd_dispatch) / sizeof(void *)))

cl_icd_dispatch facet_cl_target;

static cl_icd_dispatch hooked;

__attribute__((visibility("default"))) cl_int clGetLayerInfo(cl_layer_info param_name, size_t param_value_size,
                                                             void *param_value, size_t *param_value_size_ret)
{
    static const char name[] = "Facet";
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *value = param_name == CL_LAYER_NAME ? (const void *)name : &version;
    size_t size = param_name == CL_LAYER_NAME ? sizeof name : sizeof version;

    if (param_name != CL_LAYER_NAME && param_name != CL_LAYER_API_VERSION)
        return CL_INVALID_VALUE;
    if (param_value && param_value_size < size)
        return CL_INVALID_VALUE;
    if (param_value)
        memcpy(param_value, value, size);
    if (param_value_size_ret)
        *param_value_size_ret = size;
    return CL_SUCCESS;
}

/* Copies the table of the layer below, and sets the hooks; an entry that the layer below lacks stays absent. */
static void assemble_dispatch(const cl_icd_dispatch *target, cl_uint num_entries)
{
    cl_uint known = num_entries < TABLE_ENTRIES ? num_entries : TABLE_ENTRIES;

    memcpy(&facet_cl_target, target, known * sizeof(void *));
    hooked = facet_cl_target;
#define HOOK(name)                                                                                                     \
    if (hooked.name)                                                                                                   \
        hooked.name = facet_##name;
    FACET_CL_HOOKS(HOOK)
#undef HOOK
}

/*
 * Outside a vGPU, the target is returned unchanged. It is returned unchanged, too, when this library is in the chain of
 * layers already (listed twice, or `facet run` inside `facet run`), so that nothing is charged twice.
 */
__attribute__((visibility("default"))) cl_int clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                                                          cl_uint *num_entries_ret,
                                                          const cl_icd_dispatch **layer_dispatch_ret)
{
    static bool assembled;

    if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret)
        return CL_INVALID_VALUE;
    if (assembled || !facet_cl_process_init()) {
        *layer_dispatch_ret = target_dispatch;
        *num_entries_ret = num_entries;
        return CL_SUCCESS;
    }
    assembled = true;
    assemble_dispatch(target_dispatch, num_entries);
    *layer_dispatch_ret = &hooked;
    *num_entries_ret = num_entries < TABLE_ENTRIES ? num_entries : TABLE_ENTRIES;
    return CL_SUCCESS;
}
