/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: for the tests of the built kernel compiler, loading it and compiling with it.
 * Never: looks into an image.
 */
#ifndef KERNEL_COMPILING_H
#define KERNEL_COMPILING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "kernel/backend.h"

#define UNUSED      __attribute__((unused))
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

UNUSED static const char saxpy[] = "kernel void saxpy(float a, global const float *x, global float *y)\n"
                                   "{ int i = get_global_id(0); y[i] = a * x[i] + y[i]; }\n";
UNUSED static const char every_argument_kind[] =
    "typedef struct { int a; float b[3]; } pair;\n"
    "__attribute__((reqd_work_group_size(16, 4, 1)))\n"
    "kernel void kinds(global float *x, constant float *c, local float *l, pair p, float3 f, char ch, ulong n)\n"
    "{ local float tile[64]; int i = get_local_id(0); tile[i] = x[i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  x[i] = tile[i ^ 1] * c[i] + l[i] + p.a + p.b[1] + f.y + ch + n; }\n";
UNUSED static const char *const targets[] = {"host",       "host:x86-64-v3", "ptx:sm_75",     "ptx:sm_90",
                                             "ptx:sm_100", "amdgcn:gfx90a",  "amdgcn:gfx942", "amdgcn:gfx1100",
                                             "spirv:1.0",  "spirv:1.2"};

enum { NATIVE_TARGETS = 8 }; /* the targets before SPIR-V */

UNUSED static const struct facet_backend *backend;

/*
 * A compile is a child of fork(). Before version 17, clang's address sanitizer does not take its allocator's lock for
 * fork(). A child that begins while another thread allocates would then wait forever for a lock that no thread of the
 * child holds.
 */
#if defined(__SANITIZE_ADDRESS__) && defined(__clang_major__) && __clang_major__ < 17
void lock_allocator(void) __asm__("_ZN6__lsan13LockAllocatorEv") __attribute__((weak));
void unlock_allocator(void) __asm__("_ZN6__lsan15UnlockAllocatorEv") __attribute__((weak));

static void make_fork_safe(void)
{
    if (lock_allocator && unlock_allocator)
        assert_int_equal(pthread_atfork(lock_allocator, unlock_allocator, unlock_allocator), 0);
}
#else
static void make_fork_safe(void)
{
}
#endif

UNUSED static int open_backend(void **state)
{
    facet_backend_entry_func entry;
    void *object = dlopen(getenv("FACET_TEST_COMPILER"), RTLD_NOW | RTLD_LOCAL);

    (void)state;
    if (!object)
        fprintf(stderr, "%s\n", dlerror());
    assert_non_null(object);
    *(void **)&entry = dlsym(object, FACET_BACKEND_ENTRY);
    assert_non_null(entry);
    make_fork_safe();
    backend = entry();
    return 0;
}

UNUSED static bool is_llvm_19(void)
{
    return strstr(backend->version, "LLVM 19.");
}

/* True if this compiler's LLVM makes no code for the target. The newest NVIDIA processor of LLVM 19 is sm_90a, and a
 * build of LLVM 19 may lack SPIR-V. */
UNUSED static bool is_beyond(const char *target)
{
    if (!is_llvm_19())
        return false;
    if (strncmp(target, "spirv:", 6) == 0)
        return !backend->knows("spirv", target + 6);
    return strcmp(target, "ptx:sm_100") == 0;
}

/* The most seconds that a compile may take. */
static uint32_t compile_seconds = 600;

/* --- compiling ---------------------------------------------------------------------------------------------------- */

UNUSED static enum facet_status compile_bytes(uint32_t kind, const void *source, size_t bytes, const char *target,
                                              const char *const *arguments, struct facet_backend_result *ret_result,
                                              struct facet_error *error)
{
    const struct facet_backend_request request = {
        .source = source,
        .bytes = bytes,
        .target = target,
        .name = "a \"name\".cl",
        .arguments = arguments,
        .source_kind = kind,
        .seconds = compile_seconds,
    };

    *error = (struct facet_error){0};
    return backend->compile(&request, ret_result, error);
}

UNUSED static enum facet_status compile(const char *source, const char *target, const char *const *arguments,
                                        struct facet_backend_result *ret_result, struct facet_error *error)
{
    return compile_bytes(FACET_SOURCE_OPENCL_C, source, strlen(source), target, arguments, ret_result, error);
}

UNUSED static void compile_well(const char *source, const char *target, struct facet_backend_result *ret_result)
{
    struct facet_error error;

    if (compile(source, target, NULL, ret_result, &error) != FACET_OK)
        fail_msg("%s: %s", target, error.message);
    assert_int_equal(ret_result->diagnostic_count, 0);
    assert_non_null(ret_result->image);
    assert_non_null(ret_result->description);
}

#endif
