/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: loading DCMI, the one lock around it, and translating its codes.
 * Never: knows devices.
 */
#include "dcmi.h"

#include <dlfcn.h>
#include <pthread.h>

#include "library_kit.h"
#include "provider_kit.h"

static const char *const dcmi_places[] = {"libdcmi.so", "/usr/local/dcmi/libdcmi.so", NULL};

/* There is one mutex for the process, because all instances use the same library. */
static pthread_mutex_t dcmi_mutex = PTHREAD_MUTEX_INITIALIZER;

void ascend_dcmi_lock(void)
{
    pthread_mutex_lock(&dcmi_mutex);
}

void ascend_dcmi_unlock(void)
{
    pthread_mutex_unlock(&dcmi_mutex);
}

/* X(code, status, text) */
#define DCMI_CODES(X)                                                                                                  \
    X(-8001, INTERNAL, "invalid parameter")                                                                            \
    X(-8002, PERMISSION, "operation not permitted")                                                                    \
    X(-8003, IO, "memory operation failed")                                                                            \
    X(-8004, IO, "secure function failed")                                                                             \
    X(-8005, IO, "internal error of the driver")                                                                       \
    X(-8006, TIMEOUT, "timed out")                                                                                     \
    X(-8007, DEVICE_LOST, "invalid device")                                                                            \
    X(-8008, DEVICE_LOST, "the device does not exist")                                                                 \
    X(-8009, IO, "ioctl failed")                                                                                       \
    X(-8010, IO, "sending to the device failed")                                                                       \
    X(-8011, IO, "receiving from the device failed")                                                                   \
    X(-8012, BUSY, "not ready")                                                                                        \
    X(-8013, UNSUPPORTED, "not supported in a container")                                                              \
    X(-8014, IO, "file operation failed")                                                                              \
    X(-8015, IO, "reset failed")                                                                                       \
    X(-8016, IO, "operation aborted")                                                                                  \
    X(-8017, BUSY, "an upgrade is under way")                                                                          \
    X(-8020, BUSY, "resource occupied")                                                                                \
    X(-8255, UNSUPPORTED, "not supported")

static const struct {
    int code;
    enum facet_status status;
    const char *text;
} dcmi_codes[] = {
#define DCMI_CODE(code, status, text) {code, FACET_##status, text},
    DCMI_CODES(DCMI_CODE)
#undef DCMI_CODE
};

static size_t code_index(int code)
{
    size_t i = 0;

    while (i < sizeof dcmi_codes / sizeof *dcmi_codes && dcmi_codes[i].code != code)
        i++;
    return i;
}

enum facet_status ascend_dcmi_status(int code)
{
    size_t i = code_index(code);

    if (code == 0)
        return FACET_OK;
    return i < sizeof dcmi_codes / sizeof *dcmi_codes ? dcmi_codes[i].status : FACET_IO;
}

enum facet_status ascend_dcmi_fail(struct facet_error *error, const char *call, int code)
{
    size_t i = code_index(code);

    return facet_kit_fail(error, ascend_dcmi_status(code), "%s: %d, %s", call, code,
                          i < sizeof dcmi_codes / sizeof *dcmi_codes ? dcmi_codes[i].text
                                                                     : "a code not in the reference");
}

void ascend_dcmi_close(struct ascend_dcmi *dcmi)
{
    if (dcmi->library)
        dlclose(dcmi->library);
    *dcmi = (struct ascend_dcmi){0};
}

static enum facet_status start_dcmi(struct ascend_dcmi *dcmi, struct facet_error *error)
{
    if (!dcmi->init || !dcmi->get_card_list || !dcmi->get_device_num_in_card)
        return facet_kit_fail(error, FACET_ABI_MISMATCH,
                              "libdcmi.so: expected dcmi_init, dcmi_get_card_list and dcmi_get_device_num_in_card");
    int code = ASCEND_DCMI(dcmi, init);
    return code ? ascend_dcmi_fail(error, "dcmi_init", code) : FACET_OK;
}

enum facet_status ascend_dcmi_open(struct ascend_dcmi *dcmi, struct facet_error *error)
{
    struct ascend_dcmi opened = {0};
    enum facet_status status = facet_kit_library_open("FACET_ASCEND_DCMI", dcmi_places, &opened.library, error);

    if (status != FACET_OK || !opened.library)
        return status;
#define DCMI_RESOLVE(name, parameters) *(void **)&opened.name = dlsym(opened.library, "dcmi_" #name);
    DCMI_TABLE(DCMI_RESOLVE)
#undef DCMI_RESOLVE
    status = start_dcmi(&opened, error);
    if (status == FACET_OK)
        *dcmi = opened;
    else
        ascend_dcmi_close(&opened);
    return status;
}
