/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test kernel that a provider may publish (docs/providers.md): the property conformance_kernel names it,
 * conformance_image is its image. The kernel takes three 64-bit arguments, an address, a count and a value, and stores
 * the value in `count` 64-bit words; every work-group of a launch does the same.
 *
 * Owns: loading and launching the kernel. Never: makes the kernel's image; the provider publishes it.
 */
#ifndef FACET_CONFORMANCE_KERNEL_H
#define FACET_CONFORMANCE_KERNEL_H

#include "conformance/check.h"

struct facet_check_kernel {
    char name[64];
    uint64_t context, module, stream;
    uint32_t work_groups; /* of each launch; more work-groups take longer and write the same words */
};

/* Loads the kernel and creates a stream. False when no kernel is published, or after a failed assertion. */
bool facet_check_kernel_open(struct facet_check *check, uint64_t context, struct facet_check_kernel *ret_kernel);
bool facet_check_kernel_published(struct facet_check *check);
enum facet_status facet_check_kernel_launch(struct facet_check *check, const struct facet_check_kernel *kernel,
                                            uint64_t address, uint64_t words, uint64_t value);

/* facet_check_kernel_query() queries the kernel's stream; facet_check_kernel_wait() waits for it. */
enum facet_status facet_check_kernel_query(struct facet_check *check, const struct facet_check_kernel *kernel,
                                           struct facet_stream_state *ret_state);
enum facet_status facet_check_kernel_wait(struct facet_check *check, const struct facet_check_kernel *kernel,
                                          uint64_t timeout_ns);

/* Increases `work_groups` until a launch takes some milliseconds of device time, or a maximum is reached. */
bool facet_check_kernel_lengthen(struct facet_check *check, struct facet_check_kernel *kernel, uint64_t address);

/* A queue of launches; launch i writes i + 1 to word i of `address`, so that memory tells which ones ran. */
#define FACET_CHECK_QUEUE 32u
enum facet_status facet_check_queue_fill(struct facet_check *check, const struct facet_check_kernel *kernel,
                                         uint64_t address);
/* Reads the FACET_CHECK_QUEUE words of a queue into `ret_words`. */
enum facet_status facet_check_queue_words(struct facet_check *check, const struct facet_check_kernel *kernel,
                                          uint64_t address, uint64_t *ret_words);

/* check_queue.c: tests that a wait for queued work ends only once all of it is complete, and that a cancel drops
 * launches that have not begun. `address` has room for FACET_CHECK_QUEUE words. */
void facet_check_queue(struct facet_check *check, struct facet_check_kernel *kernel, uint64_t address);

/* check_launch.c: the fields of a launch since ABI 1.2. `address` has room for 16 words. */
void facet_check_launch_forms(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address);

/* check_enqueue.c, check_share.c, check_record.c: cases of the group `execution`. */
void facet_check_enqueue(struct facet_check *check);
void facet_check_share(struct facet_check *check);
void facet_check_records(struct facet_check *check);

/* A stream's records with sequence numbers above `after`, to free(); NULL after a failed assertion. */
struct facet_launch_record *facet_check_fetch_records(struct facet_check *check, uint64_t context, uint64_t stream,
                                                      uint64_t after, uint32_t *ret_count);

/* check_control.c, check_schedule.c: cases of the group `execution`, since ABI 1.4. */
void facet_check_control(struct facet_check *check);
void facet_check_schedule(struct facet_check *check);

/* check_pause.c, check_cancel_launch.c, check_wait.c, check_bounds.c: parts of facet_check_control(). The kernel takes
 * some milliseconds, and `address` has room for FACET_CHECK_QUEUE words. */
void facet_check_pause(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address);
void facet_check_cancel_launch(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address);
void facet_check_wait(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address);
void facet_check_bounds(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address);

/* Copies the kernel, with a new stream of its context. */
bool facet_check_kernel_add_stream(struct facet_check *check, const struct facet_check_kernel *kernel,
                                   struct facet_check_kernel *ret_second);

/* The longest that a check waits for its launches and operations: far longer than any of them takes. */
#define FACET_CHECK_KERNEL_NS UINT64_C(5000000000)

#endif
