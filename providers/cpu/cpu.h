/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of this provider share: the instance, its workers, its contexts and their objects.
 *
 * Owns: the objects, and the order of their locks.
 * Never: decides whose work-group is next (executor.h).
 *
 * Locks, outermost first: a context's space, a context's own lock, the instance's or the pool's. A thread that holds
 * one may call the executor, which holds none when it calls the provider. No thread waits while it holds one.
 *
 * References: the instance's list of contexts holds one to each, and so does each operation on a context. When the last
 * is dropped, the context is freed. In the same way a context's list holds a reference to each of its queues.
 */
#ifndef CPU_H
#define CPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/host_kernel.h>
#include <facet/provider.h>

#include "elf_image.h"
#include "event_kit.h"
#include "executor.h"
#include "map.h"
#include "provider_kit.h"
#include "space.h"

#define CPU_ARGUMENTS_MOST 4096u
#define CPU_LOCAL_MOST     (1u << 20)           /* local memory of a work-group: the kernel's own and the launch's */
#define CPU_GLOBAL_MOST    INT32_MAX            /* work-items of a dimension, with its offset */
#define CPU_GROUPS_MOST    (UINT64_C(1) << 48)  /* of a launch */
#define CPU_DRAIN_NS       UINT64_C(4000000000) /* how long a copy waits for the context's work */
#define CPU_GRACE_NS       UINT64_C(2000000000) /* how long the end of a context waits for its running work-groups */

#define CPU_REQUIRE(pointer, error)                                                                                    \
    do {                                                                                                               \
        if (!(pointer))                                                                                                \
            return facet_kit_fail((error), FACET_INVALID_ARGUMENT, "%s: expected one, not NULL", #pointer);            \
    } while (0)

/* The limits, contexts and memory of one worker on the device. Under the instance's lock. */
struct cpu_worker {
    TAILQ_ENTRY(cpu_worker) link;
    char name[FACET_WORKER_SIZE];
    uint32_t valid; /* FACET_WORKER_HAS_*: which limits are set */
    uint32_t units;
    uint64_t memory_bytes;
    struct cpu_tenant *tenant; /* with a compute limit: the tenant that all its contexts share. Else NULL */
    uint32_t contexts;
    uint32_t shared_pages; /* pages for which the worker itself is charged, and not one of its contexts */
    uint64_t used_bytes, reserved_bytes;
    uint64_t ended_contexts_ns; /* device time of its contexts that have ended */
    uint64_t read_at_ns, read_busy_ns;
    uint32_t compute_milli; /* between the last two readings */
    bool was_read;
};

/*
 * A launch, operation or transfer that is not complete. Until then its module, and all memory that existed when it was
 * queued, are not freed.
 */
struct cpu_launch {
    TAILQ_ENTRY(cpu_launch) link;
    struct cpu_context *context;
    struct cpu_module *module;
    uint64_t sequence;
};

struct cpu_module {
    TAILQ_ENTRY(cpu_module) link;
    uint64_t number;
    uint32_t pending; /* launches that are not complete */
    int fd;           /* the file that the loader opened as /proc/self/fd/FD; open as long as `object` is */
    void *object;
    uint64_t base; /* where it was loaded */
    struct cpu_elf elf;
    const struct facet_host_image *image;
};

/* A stream of the ABI. */
struct cpu_queue {
    TAILQ_ENTRY(cpu_queue) link;
    uint64_t number;          /* 0: it was destroyed */
    uint64_t creation_number; /* `number` as it was before */
    uint32_t references;
    struct cpu_context *context;
    struct cpu_stream *stream;
    enum facet_status finding; /* of a checked launch, reported by the next synchronize; FACET_OK: none */
    char finding_text[sizeof((struct facet_error *)NULL)->message];
};

/* Plain memory that was freed while launches that had been queued before could still use it. */
struct cpu_deferred_free {
    TAILQ_ENTRY(cpu_deferred_free) link;
    struct cpu_range range;
    uint64_t sequence; /* of the first launch that cannot use it */
};

struct cpu_context {
    TAILQ_ENTRY(cpu_context) link;
    struct facet_provider_instance *instance;
    struct cpu_worker *worker;
    struct cpu_tenant *tenant; /* its own, or the worker's */
    uint64_t number;
    uint64_t used_bytes, reserved_bytes; /* these and counted_ns: under the instance's lock */
    uint32_t references;
    uint64_t counted_ns; /* the part of its device time that its worker was charged when the context ended */

    struct cpu_space space;
    _Atomic uint64_t staged_bytes; /* copies of data that is queued to be written */

    pthread_mutex_t lock; /* of the fields below */
    TAILQ_HEAD(, cpu_queue) queues;
    TAILQ_HEAD(, cpu_module) modules;
    TAILQ_HEAD(cpu_launches, cpu_launch) launches; /* in the order of their sequence */
    TAILQ_HEAD(cpu_deferred_frees, cpu_deferred_free) deferred_frees;
    uint64_t sequence;
};

struct facet_provider_instance {
    struct facet_device_info info;
    char *features; /* of the processor: " fpu vme ... " */
    struct cpu_executor *executor;
    struct cpu_pool pool;

    pthread_mutex_t lock;        /* of the fields below, up to `events` */
    pthread_cond_t zombie_ended; /* signalled when a zombie is freed */
    TAILQ_HEAD(, cpu_context) contexts;
    TAILQ_HEAD(, cpu_worker) workers;
    uint64_t number;  /* the number that was assigned last */
    uint32_t zombies; /* contexts whose end waits for a work-group */
    uint64_t read_at_ns, read_unit_ns;
    uint32_t compute_milli;
    bool was_read;
    struct facet_kit_events events;

    pthread_mutex_t math_lock; /* held to open the library and the engine below; neither changes afterwards */
    const struct cpu_math_library *math;
    struct cpu_math_engine *math_engine; /* NULL: not opened */
};

extern const struct facet_device_ops cpu_device_ops;
extern const struct facet_limit_ops cpu_limit_ops;
extern const struct facet_metrics_ops cpu_metrics_ops;
extern const struct facet_container_ops cpu_container_ops;
extern const struct facet_memory_ops cpu_memory_ops;
extern const struct facet_execution_ops cpu_execution_ops;
extern const struct facet_math_ops cpu_math_ops;

/* --- machine.c: the machine's properties --- */

/* Processors that this process may run on, at most CPU_UNITS_MOST. */
uint32_t cpu_processors(void);
/* The caller frees *ret_features. */
enum facet_status cpu_machine_describe(struct facet_device_info *ret_info, char **ret_features,
                                       struct facet_error *error);
/* Reads a number from 1 to `most` from the environment; 0: the variable is unset. FACET_INVALID_ARGUMENT. */
enum facet_status cpu_setting_read(const char *name, uint64_t most, uint64_t *ret_value, struct facet_error *error);
/* Reads a variable of the environment that is 0, 1, or unset, which is off. FACET_INVALID_ARGUMENT. */
enum facet_status cpu_switch_read(const char *name, bool *ret_on, struct facet_error *error);

/* --- instance.c --- */

enum facet_status cpu_open(struct facet_provider_instance **ret_instance, struct facet_error *error);
void cpu_close(struct facet_provider_instance *instance);
/* Keeps this shared object loaded: one of its threads may run its code for longer than an instance lives. */
void cpu_stay_loaded(void);
uint64_t cpu_now_ns(clockid_t clock);
uint64_t cpu_number_next(struct facet_provider_instance *instance);
/* Every operation on the device calls this check first. */
enum facet_status cpu_check_device(const struct facet_provider_instance *instance, uint32_t device,
                                   struct facet_error *error);

/* --- event.c --- */

void cpu_event_add(struct facet_provider_instance *instance, const char *message, uint64_t value);
enum facet_status cpu_events(struct facet_provider_instance *instance, uint64_t after, void *items, uint32_t item_size,
                             uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* --- worker.c: all with the instance's lock held --- */

struct cpu_worker *cpu_worker_find(struct facet_provider_instance *instance, const char *name);
enum facet_status cpu_worker_get(struct facet_provider_instance *instance, const char *name,
                                 struct cpu_worker **ret_worker, struct facet_error *error);
/* Whether the worker has a context, or is charged for shared pages. */
bool cpu_worker_is_used(const struct cpu_worker *worker);
/* Frees the worker if it is not used and has no limit. */
void cpu_worker_settle(struct facet_provider_instance *instance, struct cpu_worker *worker);
/* Bytes that no limit promises and no worker without a limit uses. */
uint64_t cpu_memory_free(const struct facet_provider_instance *instance);
uint64_t cpu_memory_used(const struct facet_provider_instance *instance);
/* Units that no limit promises. */
uint32_t cpu_units_free(const struct facet_provider_instance *instance);
/* Sets the bound of each worker without a limit: the units that limits leave. */
void cpu_units_set_unlimited(struct facet_provider_instance *instance);
uint64_t cpu_worker_busy_ns(const struct facet_provider_instance *instance, const struct cpu_worker *worker);

/* --- context.c --- */

/* Takes a reference; the caller drops it with cpu_context_drop(). */
enum facet_status cpu_context_take(struct facet_provider_instance *instance, uint64_t number,
                                   struct cpu_context **ret_context, struct facet_error *error);
void cpu_context_drop(struct cpu_context *context);
enum facet_status cpu_context_create(struct facet_provider_instance *instance, const char *worker,
                                     uint64_t *ret_context, struct facet_error *error);
/* Takes the context out of the list and cancels its work. It is freed as soon as no work-group of it runs. */
void cpu_context_end(struct cpu_context *context);
/* Waits for all work that is queued in the context. */
enum facet_status cpu_context_drain(struct cpu_context *context, uint64_t timeout_ns, struct facet_error *error);

/* Charges bytes to the context, within its worker's limit, or the device's free memory. FACET_QUOTA, FACET_NO_SPACE. */
enum facet_status cpu_account_charge(struct cpu_context *context, uint64_t bytes, struct facet_error *error);
void cpu_account_uncharge(struct cpu_context *context, uint64_t bytes);
void cpu_account_reserve(struct cpu_context *context, uint64_t bytes, bool more);
/* Charges a context's pages to its worker, because they may outlive the context. */
void cpu_account_share(struct cpu_context *context, uint64_t bytes);
/* Frees pages without references, and ends the charge for them. With no lock held. */
void cpu_account_free_pages(struct cpu_context *context, struct cpu_pages_list *unused);

/* --- queue.c --- */

enum facet_status cpu_queue_create(struct cpu_context *context, uint64_t *ret_number, struct facet_error *error);
/* Takes a reference to the queue and to its context; the caller drops both with cpu_queue_drop(). */
enum facet_status cpu_queue_take(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                 struct cpu_queue **ret_queue, struct facet_error *error);
void cpu_queue_drop(struct cpu_queue *queue);
/* The queue that was created next after number `after`, with a reference; NULL: there is none. */
struct cpu_queue *cpu_queue_next(struct cpu_context *context, uint64_t after);
/* Takes the queue out of the list and cancels its work. A queue that cannot end yet ends with the context. */
void cpu_queue_end(struct cpu_queue *queue);

/* --- module.c --- */

enum facet_status cpu_module_load(struct facet_provider_instance *instance, const void *image, uint64_t bytes,
                                  struct cpu_module **ret_module, struct facet_error *error);
void cpu_module_free(struct cpu_module *module);
const struct facet_host_kernel *cpu_module_kernel(const struct cpu_module *module, const char *name);
/* Whether the bytes at an address lie in the loaded object. */
bool cpu_module_has(const struct cpu_module *module, uint64_t address, uint64_t bytes);
/* With the context's lock held. */
struct cpu_module *cpu_module_find(struct cpu_context *context, uint64_t number);

/* --- image_table.c --- */

/*
 * Checks everything in the table that can be checked: that it lies in the object, and that its values are possible.
 * `base`: the address at which the object was loaded.
 */
enum facet_status cpu_image_check(const struct facet_host_image *image, const struct cpu_elf *elf, uint64_t base,
                                  const char *features, struct facet_error *error);

/* --- conformance_kernel.c, as an image that embed.py writes as a C array --- */

/* The image that `facet provider check` loads, by the name that the properties publish. */
#define CPU_CONFORMANCE_NAME "facet-cpu:store_words"
extern const unsigned char cpu_conformance_image[];
extern const unsigned int cpu_conformance_image_size;

/* --- launch.c --- */

enum facet_status cpu_launch(struct cpu_queue *queue, const struct facet_launch *launch, const void *arguments,
                             struct facet_error *error);

/* Memory that is freed from here on stays until cpu_launch_leave(). With the space's lock held. */
void cpu_launch_enter(struct cpu_context *context, struct cpu_launch *launch);
/* With no lock held. */
void cpu_launch_leave(struct cpu_launch *launch);

/* --- math.c --- */

/* Whether the object for the table `math` is installed; it is not opened. */
bool cpu_math_is_installed(void);
/* Called when no work runs any more. */
void cpu_math_close(struct facet_provider_instance *instance);

/* --- transfer.c --- */

struct cpu_transfer {
    uint64_t to, from, bytes;
    const void *data; /* to write; else NULL */
    uint32_t fill;    /* a byte's value, or CPU_NO_FILL */
};
#define CPU_NO_FILL UINT32_MAX

/* Transfers in the calling thread. */
enum facet_status cpu_transfer_run(struct cpu_context *context, const struct cpu_transfer *transfer,
                                   struct facet_error *error);
/* Queues the transfer, in order with the queue's other work. */
enum facet_status cpu_transfer_queue(struct cpu_queue *queue, const struct cpu_transfer *transfer,
                                     struct facet_error *error);

/* --- deferred_free.c --- */

/* Defers the free of plain memory that has left the space, until no launch can use it. With the space's lock held. */
void cpu_deferred_free_add(struct cpu_context *context, struct cpu_deferred_free *deferred, struct cpu_range range);
/* Frees the deferred memory that no launch can use any more. With no lock held. */
void cpu_deferred_free_run(struct cpu_context *context);
/* FACET_BUSY: launches may still use the range, and it is retired: ask again later. With no lock held. */
enum facet_status cpu_unmap(struct cpu_context *context, struct cpu_range range, struct cpu_pages_list *unused,
                            struct facet_error *error);

/* --- check.c --- */

/* Launches a kernel of a checked image: each access is checked, and the first wrong one fails the stream. */
enum facet_status cpu_checked_launch(struct cpu_queue *queue, const struct cpu_module *module,
                                     const struct facet_host_kernel *kernel, const struct facet_launch *launch,
                                     const void *arguments, cpu_done_func done, void *owner, struct facet_error *error);
/* The functions that a checked image calls. */
extern const struct facet_host_check cpu_check_functions;

/* --- shadow.c --- */

/* The work-items that touched each byte since the last barrier. */
struct cpu_shadow;

struct cpu_shadow *cpu_shadow_create(void); /* NULL: no memory */
void cpu_shadow_free(struct cpu_shadow *shadow);
void cpu_shadow_forget(struct cpu_shadow *shadow);
/* Notes an access, and says whether another work-item made one that it races with. `flags`: facet/host_kernel.h. */
bool cpu_shadow_races(struct cpu_shadow *shadow, uint64_t address, uint64_t bytes, uint32_t flags, uint32_t item);

#endif
