/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening AMD SMI and translating its results. Never: unloads it: its threads may run after our last call. */
#include "library.h"

#include <ctype.h>
#include <link.h>

#include "library_kit.h"

static const char *const library_names[] = {"libamd_smi.so.26",
                                            "libamd_smi.so.25",
                                            "libamd_smi.so.24",
                                            "/opt/rocm/lib/libamd_smi.so.26",
                                            "/opt/rocm/lib/libamd_smi.so.25",
                                            "/opt/rocm/lib/libamd_smi.so.24",
                                            NULL};

enum facet_status rocm_smi_status(amdsmi_status_t result)
{
    switch (result) {
    case AMDSMI_STATUS_SUCCESS:
        return FACET_OK;
    case AMDSMI_STATUS_NOT_SUPPORTED:
    case AMDSMI_STATUS_NOT_YET_IMPLEMENTED:
    case AMDSMI_STATUS_SETTING_UNAVAILABLE:
        return FACET_UNSUPPORTED;
    case AMDSMI_STATUS_NO_PERM:
        return FACET_PERMISSION;
    case AMDSMI_STATUS_NOT_FOUND:
        return FACET_DEVICE_LOST;
    case AMDSMI_STATUS_BUSY:
        return FACET_BUSY;
    case AMDSMI_STATUS_OUT_OF_RESOURCES:
        return FACET_NO_MEMORY;
    case AMDSMI_STATUS_TIMEOUT:
        return FACET_TIMEOUT;
    case AMDSMI_STATUS_INVAL:
    case AMDSMI_STATUS_NOT_INIT:
        return FACET_INTERNAL;
    default:
        return FACET_IO;
    }
}

enum facet_status rocm_smi_fail(const struct rocm_smi *smi, struct facet_error *error, const char *call,
                                amdsmi_status_t result)
{
    const char *text = NULL;

    if (ROCM_SMI(smi, amdsmi_status_code_to_string, result, &text) != AMDSMI_STATUS_SUCCESS || !text)
        text = "no text for it";
    return facet_kit_fail(error, rocm_smi_status(result), "%s: %u, %.160s", call, (unsigned)result, text);
}

/* The release by the name of the loaded file: libamd_smi.so.26.0, or the target of such a link. */
static unsigned release_of(void *library)
{
    struct link_map *map = NULL;
    const char *number;

    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map)
        return 0;
    number = strrchr(map->l_name, '/');
    number = strstr(number ? number : map->l_name, ".so.");
    return number && isdigit((unsigned char)number[4]) ? (unsigned)strtoul(number + 4, NULL, 10) : 0;
}

/* Whether the library is loaded but the kernel's driver is not. Then there are no devices. */
static bool no_driver(amdsmi_status_t result)
{
    return result == AMDSMI_STATUS_DRIVER_NOT_LOADED || result == AMDSMI_STATUS_NO_DRV;
}

static enum facet_status start_smi(struct rocm_smi *smi, struct facet_error *error)
{
#define ROCM_CHECK(symbol)                                                                                             \
    if (!smi->symbol)                                                                                                  \
        return facet_kit_fail(error, FACET_ABI_MISMATCH, "libamd_smi.so: expected " #symbol);
    ROCM_SMI_NEEDED(ROCM_CHECK)
#undef ROCM_CHECK
    amdsmi_status_t result = smi->amdsmi_init(AMDSMI_INIT_AMD_GPUS);
    if (no_driver(result))
        smi->library = NULL;
    else if (result != AMDSMI_STATUS_SUCCESS)
        return rocm_smi_fail(smi, error, "amdsmi_init", result);
    return FACET_OK;
}

enum facet_status rocm_smi_open(struct rocm_smi *ret_smi, struct facet_error *error)
{
    struct rocm_smi opened = {0};
    enum facet_status status = facet_kit_library_open("FACET_ROCM_SMI", library_names, &opened.library, error);

    if (status != FACET_OK || !opened.library)
        return status;
#define ROCM_RESOLVE(symbol) opened.symbol = (__typeof__(opened.symbol))dlsym(opened.library, #symbol);
    ROCM_SMI_NEEDED(ROCM_RESOLVE)
    ROCM_SMI_OPTIONAL(ROCM_RESOLVE)
    opened.release = release_of(opened.library);
    if (opened.release >= VENDOR_AMDSMI_STRUCTS) {
        ROCM_SMI_STRUCTS(ROCM_RESOLVE)
    }
#undef ROCM_RESOLVE
    status = start_smi(&opened, error);
    if (status == FACET_OK && opened.library)
        *ret_smi = opened;
    return status;
}

void rocm_smi_close(struct rocm_smi *smi)
{
    if (smi->library)
        smi->amdsmi_shut_down();
    *smi = (struct rocm_smi){0};
}
