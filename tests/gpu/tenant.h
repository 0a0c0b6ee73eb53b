/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of gpu-tenant's roles.
 *
 * Owns: the functions behind the names in tenant.c. Each takes as many arguments as that file states.
 * Never: is used by another program.
 */
#ifndef FACET_TEST_GPU_TENANT_H
#define FACET_TEST_GPU_TENANT_H

/* tenant_memory.c */
int role_grab(char **arguments);
int role_check(char **arguments);

/* tenant_kernel.c */
int role_store(char **arguments);
int role_calibrate(char **arguments);
int role_spin(char **arguments);

#endif
