/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider ABI: the functions that a vendor implements so that Facet can list, carve and run the vendor's devices.
 *
 * Owns: the entry point, the version rules, and the rules that hold for every operation. The operations themselves are
 * in one header per table under facet/provider/.
 * Never: names a vendor, or changes the meaning or place of a published field.
 *
 * A provider is a shared object that exports exactly one symbol, `facet_provider_entry`. providers/null is the template
 * to copy, `facet provider check FILE.so` tells whether a provider keeps the rules of these headers, and
 * docs/providers.md leads from the template to a provider that passes.
 *
 * Versions. Major must match exactly. Minor is negotiated: the host states its own minor, the provider states the minor
 * that it was built for, and both sides use the smaller. Every struct and table begins with its size, so that newer
 * members are recognised by the size and never read past it. Members are only ever appended. A provider returns only
 * those values of an enumeration that the version in use has. The host ignores bits that it does not know.
 *     1.0   device: open, close, list, health
 *     1.1   device: properties, topology, events; the tables partition, limit, metrics, container, snapshot, memory,
 *           execution; facet_device_info: what was reserved
 *     1.2   execution: write, copy, fill, set_share, set_priority, records; facet_launch: dimensions, offset. The
 *           device property kernel_target: what facet/kernel.h compiles for
 *     1.3   memory: share_pages, move
 *     1.4   execution: set_bounds, pause, wait, cancel_launch, set_policy; facet_stream_state: begun; the table math
 *
 * Absence. Any operation may be NULL, any table may be NULL or shorter than the host's: the host treats the missing
 * operations as unsupported. A bit of facet_device_info.capabilities promises that the operations which its comment
 * names work on that device; without the bit they answer FACET_UNSUPPORTED for that device.
 *
 * Rules for every operation, unless its comment says otherwise:
 *  - callable from any thread, several at a time, on the same instance; only open and close are called by one thread;
 *  - never prints, never exits, never blocks forever; never changes how a signal is handled: when a vendor's runtime
 *    does so, the provider restores the former handling before it returns;
 *  - plain data in, plain data out: no callbacks, no pointers inside structs. So every operation can run in another
 *    process, in which the host runs providers that it does not trust;
 *  - strings are printable ASCII, NUL-terminated inside their arrays; the caller owns all buffers that it passes, and
 *    the provider borrows them for the call only;
 *  - outputs come last and are untouched on failure; a failing call may describe the failure in `error` (may be NULL);
 *  - a NULL where a value is required is FACET_INVALID_ARGUMENT; an unknown device, partition, worker, context, stream,
 *    module or pages is FACET_NOT_FOUND, and so is a number that belongs to another context; an address range that is
 *    not what the operation needs is FACET_OUT_OF_RANGE; a device that is gone is FACET_DEVICE_LOST.
 *
 * Structs. The caller sets `size` of every struct that it passes for writing. The provider writes at most `size` bytes,
 * and at least the members of the struct's first version that fit; it then sets `size` to the number of bytes written.
 * A size in which not even the member `size` fits is FACET_INVALID_ARGUMENT. A size that ends within a text truncates
 * the text there: a session with a child terminates the text in its last byte, any other caller has to do so itself.
 * Fields whose bit in `valid` is clear were not measured: absent is not zero. A struct that the caller passes to be
 * read may be shorter than the provider's version of it: the missing members are zero. It may also be longer. A value
 * other than zero in a member that the provider does not know, or in a reserved member, is FACET_UNSUPPORTED, so that
 * no request of a newer caller is ignored silently.
 *
 * Lists. `items` is an array of `capacity` structs of `item_size` bytes each. The caller sets nothing in them:
 * item_size stands for the size of each, and the provider writes `size` as in any struct. The number of items is
 * written to *ret_count. If the capacity is too small (0 included; `items` may be NULL then) nothing else is written,
 * and the call returns FACET_TOO_SMALL; a list is never truncated. An empty list is FACET_OK and 0.
 */
#ifndef FACET_PROVIDER_H
#define FACET_PROVIDER_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/limits.h>
#include <facet/provider/container.h>
#include <facet/provider/device.h>
#include <facet/provider/execution.h>
#include <facet/provider/limit.h>
#include <facet/provider/math.h>
#include <facet/provider/memory.h>
#include <facet/provider/metrics.h>
#include <facet/provider/partition.h>
#include <facet/provider/snapshot.h>
#include <facet/provider/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_PROVIDER_ABI_MAJOR 1
#define FACET_PROVIDER_ABI_MINOR 4

/* The host's version and error, passed to a provider at entry. Valid during the call. */
struct facet_provider_host {
    uint32_t size; /* of this struct, as the host was built */
    uint16_t abi_major;
    uint16_t abi_minor;
    struct facet_error *error; /* a provider that refuses describes the reason here; never NULL */
};

struct facet_provider {
    uint32_t size; /* of this struct, as the provider was built */
    uint16_t abi_major;
    uint16_t abi_minor;
    const char *name;        /* [a-z][a-z0-9_-]{0,31}; the prefix of device ids: "opencl" in "opencl:0" */
    const char *version;     /* of the provider, for people */
    const char *description; /* one line */
    uint64_t traits;         /* FACET_PROVIDER_* */
    const struct facet_device_ops *device;

    /* Since 1.1. */
    const struct facet_partition_ops *partition;
    const struct facet_limit_ops *limit;
    const struct facet_metrics_ops *metrics;
    const struct facet_container_ops *container;
    const struct facet_snapshot_ops *snapshot;
    const struct facet_memory_ops *memory;
    const struct facet_execution_ops *execution;

    /* Since 1.4. */
    const struct facet_math_ops *math;
};

#define FACET_PROVIDER_SIMULATED (UINT64_C(1) << 0) /* its devices do not exist; shown wherever they are listed */
#define FACET_PROVIDER_TEMPLATE  (UINT64_C(1) << 1) /* has no devices by design */
#define FACET_PROVIDER_OWN_WORK                                                                                        \
    (UINT64_C(1) << 2) /* does its devices' work in its own process (`cpu`, for example), so its metrics cover this    \
                          instance alone */

/* The size of struct facet_provider in 1.0, the least a host accepts. */
#define FACET_PROVIDER_SIZE_1_0 48u

FACET_STATIC_ASSERT(offsetof(struct facet_provider, partition) == FACET_PROVIDER_SIZE_1_0, "ABI: facet_provider 1.0");
FACET_STATIC_ASSERT(offsetof(struct facet_provider, math) == 104, "ABI: facet_provider 1.1");
FACET_STATIC_ASSERT(sizeof(struct facet_provider) == 112, "ABI: facet_provider 1.4");

/*
 * The one exported symbol. Called once, before anything else. On success writes a pointer to static data that stays
 * valid until the object is closed. Refuses with FACET_ABI_MISMATCH when host->abi_major is not its own.
 */
typedef enum facet_status (*facet_provider_entry_func)(const struct facet_provider_host *host,
                                                       const struct facet_provider **ret_provider);

#define FACET_PROVIDER_ENTRY_NAME "facet_provider_entry"

FACET_API enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                                 const struct facet_provider **ret_provider);

#ifdef __cplusplus
}
#endif
#endif
