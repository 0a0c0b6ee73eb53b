/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles of execution_roles.h that capture streams. Never: runs outside of a vGPU. */
#ifndef FACET_TEST_CUDA_CAPTURE_ROLES_H
#define FACET_TEST_CUDA_CAPTURE_ROLES_H

void role_capture(void);
void role_capture_forms(void);
void role_fork_join(void);
void role_broken_capture(void);

#endif
