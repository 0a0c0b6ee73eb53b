/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what fork asks of virtual.c. Never: more. */
#ifndef FACET_CUDA_VIRTUAL_H
#define FACET_CUDA_VIRTUAL_H

void facet_cuda_virtual_before_fork(void);
void facet_cuda_virtual_after_fork(void);
void facet_cuda_virtual_forked(void);

#endif
