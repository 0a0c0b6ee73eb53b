/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device to run one kernel on: a session with its provider, a context and a stream.
 *
 * Owns: opening and closing these, without a daemon; the target that the device needs kernels compiled for.
 * Never: leaves a resource allocated after closing.
 */
#ifndef FACET_KERNEL_DEVICE_H
#define FACET_KERNEL_DEVICE_H

#include <facet/kernel.h>
#include <facet/session.h>

#include "device/table.h"

enum { KERNEL_TARGET_SIZE = 64 };

struct kernel_device {
    char id[FACET_DEVICE_ID_SIZE];
    char target[KERNEL_TARGET_SIZE]; /* property kernel_target; "" when it has none */
    uint64_t capabilities;
    struct facet_session *session;
    uint64_t context, stream;
};

/* `text` names a device as for `facet devices`. FACET_UNSUPPORTED: the device runs no kernels. */
enum facet_status kernel_device_open(const char *text, struct kernel_device *ret_device, struct facet_error *error);
void kernel_device_close(struct kernel_device *device);
#define KERNEL_DEVICE_CLEANUP __attribute__((cleanup(kernel_device_close)))

/* *ret_launched: the request was valid. A failure from then on, even of this call, is the kernel's. */
enum facet_status kernel_device_launch(const struct kernel_device *device, struct facet_kernel *kernel,
                                       const struct facet_range *range, bool *ret_launched, struct facet_error *error);

/*
 * Waits for the stream, at most `timeout_ns`. The error of a failed launch names the kernel. FACET_TIMEOUT has two
 * causes: with *ret_running the launch is not complete; without it the device ended a work-group that took too long.
 */
enum facet_status kernel_device_wait(const struct kernel_device *device, const char *kernel, uint64_t timeout_ns,
                                     bool *ret_running, struct facet_error *error);

/* Adds the kernel to the session's error about the lost process that ran it. Returns the error's status. */
enum facet_status kernel_device_blame(const struct kernel_device *device, const char *kernel,
                                      struct facet_error *error);

/* Ends a kernel that may never end by itself, together with the provider's process and all of its resources. */
void kernel_device_abandon(const struct kernel_device *device);

/* The record of the stream's last launch. False: the device keeps none. */
bool kernel_device_record(const struct kernel_device *device, struct facet_launch_record *ret_record);

#endif
