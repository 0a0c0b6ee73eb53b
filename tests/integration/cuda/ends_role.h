/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that end a context, a device or themselves without waiting until their launches are measured.
 *
 * Owns: the names of those ends. Each vendor's file defines them with its own calls.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_ENDS_ROLE_H
#define FACET_TEST_ENDS_ROLE_H

#define ENDS_KERNEL    "work_20000us"
#define ENDS_KERNEL_US 20000u
#define ENDS_SHORT     "work_2000us"
#define ENDS_SHORT_US  2000u
#define ENDS_BLOCKS    1056u

/*
 * "contexts": `count` times a context, a launch, a wait, and its end. "resets": so with the device's own. "unwaited":
 * as "contexts", without the wait. "worker": `count` launches and a wait, then _exit(). "killed": SIGKILL when a launch
 * is nearly over. Returns 0 or, where the library refuses something, 1.
 *
 * "waited_WAY": `count` launches of ENDS_SHORT, of which every fourth is waited for in that way, and _exit(). WAY is
 * "device", "stream" and "own" (of a stream that was made), "joined" (of one, by the legacy stream), "query", "event"
 * (behind which one more kernel runs, a long one), "asked" and "elapsed" (an event), "copy" and "any" (to the host,
 * said or seen from the pointer); "crossed" (of another stream, which waits for an event of the launches'); "threads"
 * (each launch by its thread, into a shared and an own stream); "killed" as "stream", and ended by SIGKILL.
 */
#define ENDS_WAYS(X)                                                                                                   \
    X(device)                                                                                                          \
    X(stream) X(own) X(joined) X(query) X(event) X(asked) X(elapsed) X(copy) X(any) X(crossed) X(threads) X(killed)

int ends_role(const char *name, unsigned count);

#endif
