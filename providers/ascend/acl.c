/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: loading AscendCL, and initialising and finalising it once for the process.
 * Never: knows devices.
 */
#include "acl.h"

#include <dlfcn.h>
#include <pthread.h>

#include "library_kit.h"
#include "provider_kit.h"

#define ACL_REPEATED_INIT   100002
#define ACL_NO_HOST_MEMORY  200000
#define ACL_NOT_SUPPORTED   207000
#define ACL_NO_DEVICE_SPACE 207001
#define ACL_LOST_HEARTBEAT  507010

static const char *const acl_places[] = {"libascendcl.so",
                                         "/usr/local/Ascend/ascend-toolkit/latest/lib64/libascendcl.so", NULL};

/*
 * The library is initialised once for the process. The last instance that uses it finalises it, unless other code of
 * the process had initialised it first.
 */
static pthread_mutex_t acl_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t acl_users;
static bool acl_ours; /* this code initialised the library */

enum facet_status ascend_acl_open(struct ascend_acl *acl, struct facet_error *error)
{
    struct ascend_acl opened = {0};
    enum facet_status status = facet_kit_library_open("FACET_ASCEND_ACL", acl_places, &opened.library, error);

    if (status != FACET_OK || !opened.library)
        return status;
#define ACL_RESOLVE(name, result, parameters) *(void **)&opened.name = dlsym(opened.library, #name);
    ACL_TABLE(ACL_RESOLVE)
#undef ACL_RESOLVE
    *acl = opened;
    return FACET_OK;
}

void ascend_acl_close(struct ascend_acl *acl)
{
    if (acl->initialised) {
        pthread_mutex_lock(&acl_mutex);
        if (--acl_users == 0 && acl_ours)
            acl->aclFinalize();
        pthread_mutex_unlock(&acl_mutex);
    }
    if (acl->library)
        dlclose(acl->library);
    *acl = (struct ascend_acl){0};
}

bool ascend_acl_limits(const struct ascend_acl *acl)
{
    return acl->aclrtSetDeviceResLimit && acl->aclrtGetDeviceResLimit;
}

bool ascend_acl_allocates(const struct ascend_acl *acl)
{
    return acl->aclInit && acl->aclFinalize && acl->aclrtCreateContext && acl->aclrtDestroyContext &&
           acl->aclrtSetCurrentContext && acl->aclrtMalloc && acl->aclrtFree && acl->aclrtMemcpy && acl->aclrtMemset &&
           acl->aclrtGetMemInfo;
}

enum facet_status ascend_acl_start(struct ascend_acl *acl, struct facet_error *error)
{
    int code = 0;

    if (acl->initialised)
        return FACET_OK;
    pthread_mutex_lock(&acl_mutex);
    if (acl_users == 0) {
        code = acl->aclInit(NULL);
        acl_ours = code == 0;
        if (code == ACL_REPEATED_INIT)
            code = 0;
    }
    if (code == 0) {
        acl_users++;
        acl->initialised = true;
    }
    pthread_mutex_unlock(&acl_mutex);
    return code ? ascend_acl_fail(acl, error, "aclInit", code) : FACET_OK;
}

static enum facet_status acl_status(int code)
{
    switch (code) {
    case ACL_NO_HOST_MEMORY:
    case ACL_NO_DEVICE_SPACE:
        return FACET_NO_SPACE;
    case ACL_NOT_SUPPORTED:
        return FACET_UNSUPPORTED;
    case ACL_LOST_HEARTBEAT:
        return FACET_DEVICE_LOST;
    default:
        return FACET_IO;
    }
}

enum facet_status ascend_acl_fail(const struct ascend_acl *acl, struct facet_error *error, const char *call, int code)
{
    const char *message = acl->aclGetRecentErrMsg ? acl->aclGetRecentErrMsg() : NULL;
    char text[256] = "no text";

    if (message && *message)
        FACET_KIT_TEXT(text, message);
    return facet_kit_fail(error, acl_status(code), "%s: %d, %s", call, code, text);
}
