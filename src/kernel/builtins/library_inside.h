/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the struct that library.c and link.cc share. Never: is included by other files. */
#ifndef FACET_KERNEL_BUILTINS_LIBRARY_INSIDE_H
#define FACET_KERNEL_BUILTINS_LIBRARY_INSIDE_H

#include "kernel/builtins/archive.h"

struct facet_builtins {
    struct facet_archive archive;
};

#endif
