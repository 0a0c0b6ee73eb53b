/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles of execution_roles.h that capture streams. Never: runs outside a vGPU. */
#ifndef FACET_TEST_CUDA_CAPTURE_ROLES_H
#define FACET_TEST_CUDA_CAPTURE_ROLES_H

void role_captured_launches_do_not_count(void);
void role_each_form_of_capture_is_recognised(void);
void role_a_capture_may_fork_and_join(void);
void role_a_capture_that_fails_has_ended(void);

#endif
