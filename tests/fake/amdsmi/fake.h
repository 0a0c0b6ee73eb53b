/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the fake libamd_smi.so share: handles, and how every function begins.
 *
 * Owns: the handles of this process, which are places in tables; each use checks whether a handle means something.
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

/* AMDSMI_STATUS_NOT_INIT, _INVAL, _NOT_FOUND (it is lost, or the GPU has not so many parts now). */
amdsmi_status_t fake_enter(amdsmi_processor_handle handle, bool sane, struct fake_processor *ret_processor);

/* How a function begins: `sane` says whether the other arguments are, `processor` is declared. */
#define FAKE_ENTER(handle, sane, processor)                                                                            \
    struct fake_processor processor;                                                                                   \
    amdsmi_status_t entered_ = fake_enter(handle, sane, &processor);                                                   \
    if (entered_ != AMDSMI_STATUS_SUCCESS)                                                                             \
    return entered_

/*
 * How a function begins whose structs or numbers differ in another release. With FAKE_OLD the library is of such a
 * release: a caller would be given garbage there, so its process is ended here.
 */
#ifdef FAKE_OLD
#define FAKE_ENTER_STRUCT(handle, sane, processor)                                                                     \
    fake_abort_for_other_release(__func__);                                                                            \
    FAKE_ENTER(handle, sane, processor)
#else
#define FAKE_ENTER_STRUCT(handle, sane, processor) FAKE_ENTER(handle, sane, processor)
#endif
void fake_abort_for_other_release(const char *function);

/* Writes text as the library does: AMDSMI_STATUS_INSUFFICIENT_SIZE when it does not fit. */
amdsmi_status_t fake_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Into how many parts a GPU's dies, and its memory, are cut now. */
uint32_t fake_parts(uint32_t device);
uint32_t fake_memory_parts(uint32_t device);

/* Whether it computes now, and for how long it has. */
bool fake_is_busy(uint32_t device);
uint64_t fake_busy(uint32_t device);

#endif
