/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU as the files of the kernel's driver amdgpu describe it, with or without a library of the vendor's.
 *
 * Owns: the paths of these files, and reading and writing them.
 * Never: returns a value for a file that is absent, or has no number.
 *
 * FACET_ROCM_ROOT: a folder used in place of / for all of this; for tests.
 */
#ifndef FACET_ROCM_SYSFS_H
#define FACET_ROCM_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCM_MAX_NODES 256u

/* The whole path of `format` under the root; false when it is too long. */
bool rocm_path(char *path, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The first line of a file, or its number (decimal, or 0x). */
bool rocm_read_line(const char *path, char *line, size_t size);
bool rocm_read_number(const char *path, uint64_t *ret_value);

/* The line or number of a file of a PCI function ("0000:05:00.0"). */
bool rocm_gpu_line(const char *pci_address, const char *name, char *line, size_t size);
bool rocm_gpu_number(const char *pci_address, const char *name, uint64_t *ret_value);
/* Writes a word; false with errno when it is refused. */
bool rocm_gpu_write(const char *pci_address, const char *name, const char *word);
/* A number of the hardware monitor: "temp1_input", in thousandths, "power1_average", in millionths. */
bool rocm_gpu_sensor(const char *pci_address, const char *name, uint64_t *ret_value);
/* Errors of the memory since the driver was loaded, as RAS counts them. */
bool rocm_gpu_errors(const char *pci_address, uint64_t *ret_uncorrected, uint64_t *ret_corrected);
/* The minor number of the node /dev/dri/renderD<minor> of a function; false when it has none. */
bool rocm_gpu_render(const char *pci_address, unsigned *ret_minor);

/* The functions that amdgpu drives, in the order of their addresses. */
uint32_t rocm_gpus_list(char addresses[][16], uint32_t most);

/* A node of the compute driver (KFD): a GPU, or a partition of one. */
struct rocm_node {
    uint32_t gpu_id;
    char pci_address[16];
    uint32_t partition; /* 0 when the GPU is not partitioned */
    uint64_t unique_id; /* 0: not known */
    uint32_t units, dies;
    uint32_t target; /* 90402 is gfx942 */
    uint32_t render; /* its node is /dev/dri/renderD<render>; 0: not known */
};
/* All nodes of a function, in the order of their partitions; returns their number. */
uint32_t rocm_nodes_of(const char *pci_address, struct rocm_node *nodes, uint32_t most);

#endif
