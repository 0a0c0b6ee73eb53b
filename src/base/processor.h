/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading the kernel's description of this machine's processor. Never: asks the processor itself, which may have
 * features that the kernel withholds (clearcpuid=, a hypervisor's choice).
 */
#ifndef FACET_BASE_PROCESSOR_H
#define FACET_BASE_PROCESSOR_H

/*
 * The text behind "KEY : " in /proc/cpuinfo, of the first processor, to free(). Empty: it is absent; NULL: no memory.
 */
char *facet_processor_read(const char *key);

/*
 * The features, " fpu vme ", so that each has a blank on both sides; to free(). "  ": it names none; NULL: no memory.
 */
char *facet_processor_features(void);

#endif
