/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device to run one kernel on: its provider opened, a context and a stream.
 *
 * Owns: opening and closing these, without a daemon; the target that the device needs kernels compiled for.
 * Never: keeps anything behind: closing gives all of it back.
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

/* `text` as for `facet devices`. FACET_UNSUPPORTED: it runs no kernels. */
enum facet_status kernel_device_open(const char *text, struct kernel_device *ret_device, struct facet_error *error);
void kernel_device_close(struct kernel_device *device);
#define KERNEL_DEVICE_CLEANUP __attribute__((cleanup(kernel_device_close)))

/* `ret_launched`: the request was valid, and any later failure is the kernel's, including that of the launch itself. */
enum facet_status kernel_device_launch(const struct kernel_device *device, struct facet_kernel *kernel,
                                       const struct facet_range *range, bool *ret_launched, struct facet_error *error);

/*
 * Waits for the stream, at most `timeout_ns`; a launch that failed is an error here, which names the kernel.
 * `ret_at_work`: FACET_TIMEOUT because the launch is not over; else the device ended it with that status.
 */
enum facet_status kernel_device_wait(const struct kernel_device *device, const char *kernel, uint64_t timeout_ns,
                                     bool *ret_at_work, struct facet_error *error);

/* The process that ran the kernel was lost: the session says how, this adds the kernel. Returns the error's status. */
enum facet_status kernel_device_blame(const struct kernel_device *device, const char *kernel,
                                      struct facet_error *error);

/* Ends a kernel that may never end by itself, together with its process, which gives everything back too. */
void kernel_device_abandon(const struct kernel_device *device);

/* The record of the stream's last launch. False: the device keeps none. */
bool kernel_device_record(const struct kernel_device *device, struct facet_launch_record *ret_record);

#endif
