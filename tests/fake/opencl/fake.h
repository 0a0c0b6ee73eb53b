/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny OpenCL driver for tests and benches: two equal devices of four units, which can be partitioned by counts, and
 * kernels that take as long as their argument says.
 *
 * Owns: the objects and their lifetimes: reference counts, destructor callbacks, events, profiling times.
 * Never: ships, computes anything, or does work that no test checks.
 *
 * Kernels: "noop" is done when it is enqueued; "sleep" takes as many microseconds as its argument 0 (cl_uint) says.
 * Sources: "GLOBAL=<n>" gives a program n bytes of global variables.
 * Device memory is 1 GiB, the largest allocation 512 MiB; rows of images are padded to 256 bytes.
 */
#ifndef FACET_FAKE_OPENCL_H
#define FACET_FAKE_OPENCL_H

#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define FAKE_MEMORY     (UINT64_C(1) << 30)
#define FAKE_MAX_ALLOC  (UINT64_C(512) << 20)
#define FAKE_MAX_PACKET 4096u /* of a pipe */
#define FAKE_DEVICES    2
#define FAKE_UNITS      4

/*
 * The numbers of the driver's live objects. clGetExtensionFunctionAddress("facetFakeCounters") returns their
 * address.
 */
struct fake_counters {
    _Atomic int64_t bytes, memory_objects, queues, programs, kernels, events, contexts;
    _Atomic uint64_t launches;
    _Atomic int64_t sub_devices;
};
extern struct fake_counters fake_counters;

struct fake_object {
    const cl_icd_dispatch *dispatch; /* first, as the ICD protocol demands */
    _Atomic cl_uint references;
};

struct _cl_platform_id {
    struct fake_object base;
};

struct _cl_device_id {
    struct fake_object base; /* references of a root device are not counted */
    cl_uint vendor_id;
    cl_uint units;
    cl_device_id parent; /* NULL for a root device */
    cl_device_partition_property partition[FAKE_UNITS + 3];
    size_t partition_words; /* the number of words of `partition` in use; 0 for a root device */
};

struct _cl_context {
    struct fake_object base;
    cl_device_id devices[FAKE_DEVICES];
    cl_uint device_count;
};

struct _cl_command_queue {
    struct fake_object base;
    cl_context context;
    cl_device_id device;
    cl_command_queue_properties properties;
    cl_queue_properties list[16];
    size_t list_words; /* terminator included; 0 = made without a list */
    cl_event last;     /* the last command, while it is not complete; the engine has the reference */
    uint32_t pending;
};

struct fake_destructor {
    void(CL_CALLBACK *notify)(cl_mem, void *);
    void *user_data;
    struct fake_destructor *next;
};

struct _cl_mem {
    struct fake_object base;
    cl_context context;
    cl_mem parent; /* the buffer of a sub-buffer or of an image over a buffer; owned */
    cl_mem_object_type type;
    size_t size, element;
    char *data; /* NULL for memory that is never read */
    struct fake_destructor *destructors;
};

struct _cl_program {
    struct fake_object base;
    cl_context context;
    size_t global_bytes;
    bool built;
};

struct _cl_kernel {
    struct fake_object base;
    cl_program program;
    bool sleeps;
    cl_uint microseconds;
};

struct fake_callback {
    cl_int status;
    void(CL_CALLBACK *notify)(cl_event, cl_int, void *);
    void *user_data;
    struct fake_callback *next;
};

struct _cl_event {
    struct fake_object base;
    cl_context context;
    cl_command_queue queue; /* NULL for a user event */
    cl_command_type type;
    cl_int status; /* under the engine's lock */
    cl_ulong queued_ns, start_ns, end_ns;
    uint64_t duration_ns;
    cl_event *waits; /* owned */
    cl_uint num_waits;
    struct fake_callback *callbacks;
    cl_event next; /* in the engine's list */
    /* The effect of running the command: a copy, or pointers to free. */
    char *target;
    const char *source;
    size_t bytes;
    void **freed;
    cl_uint num_freed;
};

extern cl_icd_dispatch fake_dispatch;
extern struct _cl_platform_id fake_platform;
extern struct _cl_device_id fake_devices[FAKE_DEVICES];

void *fake_make(size_t size);
cl_int fake_answer(const void *value, size_t size, size_t param_value_size, void *param_value,
                   size_t *param_value_size_ret);
void fake_error(cl_int *errcode_ret, cl_int code);
uint64_t fake_now_ns(void);

/* True when this was the last reference. */
bool fake_unref(struct fake_object *object);

/* engine.c: a command of `queue`; the caller fills in its action and submits it. */
cl_event fake_command(cl_command_queue queue, cl_command_type type, cl_uint num_waits, const cl_event *waits);
cl_int fake_submit(cl_event event, cl_bool blocking, cl_event *event_ret);
void fake_install_engine(cl_icd_dispatch *dispatch);
void fake_install_memory(cl_icd_dispatch *dispatch);
void fake_install_queue(cl_icd_dispatch *dispatch);
void fake_install_program(cl_icd_dispatch *dispatch);

/* device.c */
void fake_install_device(cl_icd_dispatch *dispatch);

/* memory.c: extension functions by name; NULL when there is none. */
void *fake_memory_extension(const char *name);
void fake_pointer_free(void *pointer);

#endif
