/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading the kernel's description of this machine's processor. Never: asks the processor itself, which may have
 * features that the kernel withholds (clearcpuid=, a hypervisor's choice).
 */
#ifndef FACET_BASE_PROCESSOR_H
#define FACET_BASE_PROCESSOR_H

/*
 * The text behind "KEY : " of the first processor in /proc/cpuinfo; the caller frees it. Empty: the key is absent;
 * NULL: no memory.
 */
char *facet_processor_read(const char *key);

/*
 * The processor's features as " fpu vme ", so that each has a blank on both sides; the caller frees the text. "  ": no
 * features are named; NULL: no memory.
 */
char *facet_processor_features(void);

#endif
