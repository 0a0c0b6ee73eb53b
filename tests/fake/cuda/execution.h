/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's execution: the declarations that its files share.
 *
 * Owns: the structures of streams, events, functions, graphs and captures.
 * Never: runs work: its end is computed when it is submitted, and a thread that waits for it sleeps until then.
 *
 * One lock guards all state that is not atomic; it is never held while a thread sleeps. Objects are marked dead and
 * never freed, so that their later use is recognised: it is refused, and counted (fake_execution_misuse).
 */
#ifndef FAKE_CUDA_EXECUTION_H
#define FAKE_CUDA_EXECUTION_H

#include <pthread.h>

#include "fake.h"
#include "vendor/cuda/execution.h"

struct fake_capture {
    CUstream origin;
    CUgraph graph;
    CUstreamCaptureMode mode;
    pthread_t thread;
    uint64_t id;
    bool invalid, ended;
    struct fake_capture *next;
};

#define FAKE_STREAM UINT64_C(0x6d6165727473) /* the first word of every stream; other handles are refused */

struct CUstream_st {
    uint64_t magic;
    CUcontext context;
    unsigned flags;
    int priority;
    uint64_t id;
    bool dead, legacy;
    bool joined;                                     /* nothing was captured since another stream waited for it */
    CUgreenCtx green;                                /* the stream's green context, or NULL */
    uint32_t masked_units;                           /* for HIP's masks: the units that it may use; 0: all */
    struct fake_lane *lane;                          /* the part of the device that has those units */
    struct fake_capture *capture;                    /* under the lock */
    _Atomic uint32_t captured;                       /* whether `capture` is not NULL: a launch reads only this */
    _Atomic uint64_t until_ns;                       /* when its last work is complete */
    _Atomic uint32_t host_pending;                   /* host functions that have not run */
    _Atomic uint64_t host_submitted, host_completed; /* total numbers of host functions, which run in this order */
    pthread_t thread;                                /* the thread whose default stream this is */
    struct CUstream_st *next;
};

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    bool dead, recorded;
    CUstream stream; /* of the last record */
    struct fake_capture *capture;
    _Atomic uint64_t time_ns;
};

/* The execution part's state of a context. */
struct fake_execution {
    CUcontext context;
    struct CUstream_st legacy;
    CUstream streams;              /* all except the legacy stream */
    _Atomic uint64_t blocking_ns;  /* the latest end of streams that the legacy stream waits for */
    _Atomic uint64_t all_ns;       /* the latest end of all */
    _Atomic uint32_t host_pending; /* host functions that have not run, of all streams */
};

struct fake_global {
    char name[128];
    uint64_t offset, bytes; /* of the module's globals */
    struct fake_global *next;
};

struct CUmod_st {
    CUcontext context;
    bool lists_functions, dead; /* lists_functions: the module has only its `functions` */
    CUfunction functions;
    struct fake_global *globals;
    uint64_t globals_bytes;
};

struct CUfunc_st {
    char name[128];
    _Atomic uint64_t loaded_in; /* id of the context in which it was last found to be loaded */
    CUmodule module;
    uint64_t wave_ns;
    uint32_t blocks_per_unit;
    _Atomic int dynamic_shared, block[3]; /* of the old launches */
    struct CUfunc_st *next;
};

struct fake_allocation; /* of a graph (memory_graph.c) */

struct fake_work {
    uint64_t cost_ns;
    bool kernel;
    struct fake_allocation *allocates, *frees; /* a graph's nodes of memory; NULL: none */
};

extern pthread_mutex_t fake_execution_lock;

/* How often a dead stream, event or context was used. A correct program leaves this 0. */
extern _Atomic uint32_t fake_execution_misuse;

/* Allocates a zeroed object that is never freed; aborts when memory is out. */
void *fake_execution_allocate(size_t size);

/* The context's streams and their state; made at the first call. */
struct fake_execution *fake_execution_of(CUcontext context);

/* The stream that a handle means in the current context; an error if it is dead, or its device is lost. */
CUresult fake_stream(CUstream handle, bool per_thread, CUstream *ret_stream);

/* When work submitted to the stream now may begin, by the order of streams. */
uint64_t fake_stream_ready_ns(CUstream stream);

/* Puts work into the stream, or into the graph it is captured into. */
CUresult fake_submit(CUstream stream, struct fake_work work);

/* Runs the function when all earlier work of the stream is complete. */
CUresult fake_submit_host_function(CUstream stream, void (*run)(void *argument, CUstream stream), void *argument);

/* The time that it takes to move `bytes` within a device, or between a device and the host. */
uint64_t fake_copy_ns(uint64_t bytes, bool on_device);

/*
 * Writes the `size` bytes of `value` `count` times, with memcpy() in large pieces: a sanitizer then checks each piece,
 * not each byte.
 */
void fake_fill(uint64_t to, const void *value, size_t size, size_t count);

void fake_stream_raise_end(CUstream stream, uint64_t end_ns);
void fake_sleep_until(uint64_t end_ns);

/* The cost of a launch of `blocks` on `units` multiprocessors. */
uint64_t fake_kernel_ns(const struct CUfunc_st *function, uint32_t units, uint64_t blocks);

/* green.c: the number of multiprocessors that a stream's kernels run on, and their lane; NULL: the device's engine. */
uint32_t fake_stream_units(CUstream stream);
struct fake_lane *fake_stream_lane(CUstream stream);
bool fake_green_is_dead(CUgreenCtx green);

/* ---- execution_code.c: the memory of modules on a device ---- */

/*
 * Whether a module is loaded as a whole (CUDA_MODULE_LOADING=EAGER). Else each function is loaded when it is first
 * asked for.
 */
bool fake_code_is_eager(void);

/* Loads a function, the globals, or all of a module into a context, unless it is loaded. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult fake_code_load(CUfunction function, CUcontext context);
CUresult fake_code_globals(CUmodule module, CUcontext context, uint64_t *ret_address);
CUresult fake_code_load_all(CUmodule module, CUcontext context);

/* Frees a module's memory in all contexts. Its memory in a context is also freed when that context ends. */
void fake_code_unload(CUmodule module);

/* ---- memory_graph.c: allocations of graphs ---- */

/* Makes a node's allocation. It has addresses at once, and memory from launch to free. NULL: no addresses are left. */
struct fake_allocation *fake_allocation_make(uint32_t physical, uint64_t bytes, uint64_t *ret_address);
/* The allocation at this address; NULL: there is none. */
struct fake_allocation *fake_allocation_at(uint64_t address);
uint64_t fake_allocation_address(const struct fake_allocation *allocation);
uint64_t fake_allocation_bytes(const struct fake_allocation *allocation);
uint32_t fake_allocation_device(const struct fake_allocation *allocation);
/* Graphs and executables each hold a reference to every allocation that their nodes name. */
void fake_allocation_reference(struct fake_allocation *allocation);
void fake_allocation_unreference(struct fake_allocation *allocation);
/* Runs the nodes of memory among `works`: all, or none. `free_first`: memory left from the last run is freed. */
CUresult fake_allocations_run(const struct fake_work *works, size_t count, bool free_first);
/* Reserves the memory that a launch would need, and runs nothing. */
CUresult fake_allocations_upload(const struct fake_work *works, size_t count);

/* ---- capture ---- */

/*
 * Called before work is put into the stream. CUDA_SUCCESS with `*ret_graph` NULL: the work runs. CUDA_SUCCESS with a
 * graph: the work is added to that graph. An error: the call is not allowed, and has invalidated captures.
 */
CUresult fake_capture_work(CUstream stream, CUgraph *ret_graph);

/* Called before a stream is queried or waited for, which is not allowed while the stream is captured. */
CUresult fake_capture_wait(CUstream stream);

/* Called before a whole context is waited for, which is not allowed while a stream of it is captured. */
CUresult fake_capture_wait_context(CUcontext context);

/*
 * Called by functions that are not safe during another thread's capture, allocations among them. They are allowed if
 * the calling thread has opted out.
 */
CUresult fake_capture_unsafe(void);

/*
 * Called when an event is recorded in a stream, or a stream waits for an event. True if a capture is concerned, which
 * has then handled the call, with its result.
 */
bool fake_capture_record(CUstream stream, CUevent event, CUresult *ret_result);
bool fake_capture_wait_event(CUstream stream, CUevent event, CUresult *ret_result);

/* These two are called under the lock. */
void fake_graph_add(CUgraph graph, struct fake_work work);
CUgraph fake_graph_new(void);

/* Defines both forms of a function, which call: static CUresult do_NAME(bool per_thread, ...). */
#define FAKE_BOTH_FORMS(name, parameters, ...)                                                                         \
    CUresult name parameters                                                                                           \
    {                                                                                                                  \
        return do_##name(false, __VA_ARGS__);                                                                          \
    }                                                                                                                  \
    CUresult name##_ptsz parameters                                                                                    \
    {                                                                                                                  \
        return do_##name(true, __VA_ARGS__);                                                                           \
    }

#endif
