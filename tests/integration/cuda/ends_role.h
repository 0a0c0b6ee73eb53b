/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do that end what they launched into, or themselves, without waiting to be measured.
 *
 * Owns: the names of those ends. A vendor defines what they are in its own words.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_ENDS_ROLE_H
#define FACET_TEST_ENDS_ROLE_H

#define ENDS_KERNEL    "work_20000us"
#define ENDS_KERNEL_US 20000u
#define ENDS_BLOCKS    1056u

/*
 * "contexts": `count` times a context, a launch, a wait, and its end. "resets": so with the device's own. "unwaited":
 * as "contexts", and nobody waits. "worker": `count` launches and a wait, then _exit(). "killed": SIGKILL when a launch
 * is nearly over. Returns 0 or, where the library refuses something, 1.
 */
int ends_role(const char *name, unsigned count);

#endif
