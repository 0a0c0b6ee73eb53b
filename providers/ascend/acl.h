/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL, the runtime library of CANN, as far as this provider uses it.
 *
 * Owns: the declarations, in our own words after Huawei's published "AscendCL API Reference (C&C++)" (CANN 7 to 8.5,
 * libascendcl.so), opening the library at run time, initialising it for the first context, and translating its codes.
 * Never: links to it, and never initialises it for a mere listing: that would take memory on a device.
 *
 * A failing function returns a positive code, and aclGetRecentErrMsg() has a text for the calling thread.
 */
#ifndef FACET_ASCEND_ACL_H
#define FACET_ASCEND_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

enum acl_malloc_policy { ACL_HUGE_PAGES_FIRST = 0 };
enum acl_copy_kind { ACL_HOST_TO_DEVICE = 1, ACL_DEVICE_TO_HOST = 2, ACL_DEVICE_TO_DEVICE = 3 };
enum acl_memory_kind { ACL_MEMORY_DDR = 0, ACL_MEMORY_HBM = 1 };
enum acl_core_kind { ACL_CUBE_CORES = 0, ACL_VECTOR_CORES = 1 };

/* X(name, result, parameters). Any may be missing. */
#define ACL_TABLE(X)                                                                                                   \
    X(aclInit, int, (const char *configuration))                                                                       \
    X(aclFinalize, int, (void))                                                                                        \
    X(aclGetRecentErrMsg, const char *, (void))                                                                        \
    X(aclrtGetSocName, const char *, (void))                                                                           \
    X(aclrtCreateContext, int, (void **ret_context, int32_t device))                                                   \
    X(aclrtDestroyContext, int, (void *context))                                                                       \
    X(aclrtSetCurrentContext, int, (void *context))                                                                    \
    X(aclrtMalloc, int, (void **ret_address, size_t bytes, enum acl_malloc_policy policy))                             \
    X(aclrtFree, int, (void *address))                                                                                 \
    X(aclrtMemcpy, int, (void *to, size_t room, const void *from, size_t bytes, enum acl_copy_kind kind))              \
    X(aclrtMemset, int, (void *to, size_t room, int32_t value, size_t bytes))                                          \
    X(aclrtGetMemInfo, int, (enum acl_memory_kind kind, size_t * ret_free, size_t * ret_total))                        \
    X(aclrtGetDeviceResLimit, int, (int32_t device, enum acl_core_kind kind, uint32_t * ret_cores))                    \
    X(aclrtSetDeviceResLimit, int, (int32_t device, enum acl_core_kind kind, uint32_t cores))

struct ascend_acl {
    void *library;    /* NULL: not on this machine */
    bool initialised; /* by this instance */
#define ACL_MEMBER(name, result, parameters) result(*name) parameters;
    ACL_TABLE(ACL_MEMBER)
#undef ACL_MEMBER
};

/* Opens the library. FACET_OK with `library` NULL when there is none. */
enum facet_status ascend_acl_open(struct ascend_acl *acl, struct facet_error *error);
void ascend_acl_close(struct ascend_acl *acl);

/* Whether the library can limit processes to a number of cores, and whether it can allocate memory. */
bool ascend_acl_limits(const struct ascend_acl *acl);
bool ascend_acl_allocates(const struct ascend_acl *acl);

/* Initialises the library, once for this instance. */
enum facet_status ascend_acl_start(struct ascend_acl *acl, struct facet_error *error);

/* Refuses because `call` answered `code`. */
enum facet_status ascend_acl_fail(const struct ascend_acl *acl, struct facet_error *error, const char *call, int code);

#endif
