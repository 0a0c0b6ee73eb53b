/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the fake libamd_smi.so share: handles, and how every function begins.
 *
 * Owns: the handles of this process, which are addresses of table entries; each call checks that its handle is one.
 * Never: is linked by anything that ships.
 *
 * The machine is that of the fake HIP runtime (tests/fake/hip): two GPUs like the MI300X, with eight dies each.
 */
#ifndef FAKE_AMDSMI_FAKE_H
#define FAKE_AMDSMI_FAKE_H

#include <stdbool.h>

/* Only the symbols of the vendor's library are exported. */
#pragma GCC visibility push(default)
#include "vendor/amdsmi/amdsmi.h"
#pragma GCC visibility pop

#include "tests/fake/cuda/state.h"

#define FAKE_DIES 8u

/* A part of a GPU; the first part also represents the whole GPU. */
struct fake_processor {
    uint32_t device, part;
};

amdsmi_processor_handle fake_processor_handle(uint32_t device, uint32_t part);

/* Fails with AMDSMI_STATUS_NOT_INIT, _INVAL, or _NOT_FOUND (the GPU is lost, or has fewer parts now). */
amdsmi_status_t fake_enter(amdsmi_processor_handle handle, bool arguments_valid, struct fake_processor *ret_processor);

/* Begins a function: returns its error, or declares `processor`. `arguments_valid`: the other arguments are valid. */
#define FAKE_ENTER(handle, arguments_valid, processor)                                                                 \
    struct fake_processor processor;                                                                                   \
    amdsmi_status_t entered_ = fake_enter(handle, arguments_valid, &processor);                                        \
    if (entered_ != AMDSMI_STATUS_SUCCESS)                                                                             \
    return entered_

/*
 * Begins a function whose structs or numbers differ in another release. With FAKE_OLD the library is of such a release,
 * where a caller would get garbage, so the process is aborted.
 */
#ifdef FAKE_OLD
#define FAKE_ENTER_STRUCT(handle, arguments_valid, processor)                                                          \
    fake_abort_for_other_release(__func__);                                                                            \
    FAKE_ENTER(handle, arguments_valid, processor)
#else
#define FAKE_ENTER_STRUCT(handle, arguments_valid, processor) FAKE_ENTER(handle, arguments_valid, processor)
#endif
void fake_abort_for_other_release(const char *function);

/* Writes text like the vendor's library: returns AMDSMI_STATUS_INSUFFICIENT_SIZE when the text does not fit. */
amdsmi_status_t fake_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The numbers of parts into which a GPU's dies, and its memory, are divided now. */
uint32_t fake_parts(uint32_t device);
uint32_t fake_memory_parts(uint32_t device);

/* Whether a device computes now, and the time for which it has computed so far. */
bool fake_is_busy(uint32_t device);
uint64_t fake_busy_ns(uint32_t device);

#endif
