/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that end a context, a device or themselves without waiting until their launches are measured.
 *
 * Owns: the names of the roles. Each vendor's ends_role.c plays them with the vendor's calls.
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
 * Plays the role `name`. Returns 0, or 1 if the library refuses a call.
 *
 *   contexts    `count` times: creates a context, launches, waits, destroys the context
 *   resets      as contexts, with the primary context
 *   unwaited    as contexts, without the wait
 *   worker      makes `count` launches, waits, and calls _exit()
 *   killed      makes `count` launches, and ends by SIGKILL when they are nearly over
 *   waited_WAY  makes `count` launches of ENDS_SHORT, waits for every fourth by WAY, and calls _exit()
 *
 * WAY is one of:
 *   device        waits for the device
 *   stream        waits for the default stream, into which it launches
 *   query         polls the default stream
 *   own           launches into a created stream, and waits for that stream
 *   joined        launches into a created stream, and waits for the legacy stream, which waits for created streams
 *   event         waits for an event, behind which a long kernel runs
 *   asked         polls an event
 *   elapsed       polls the time between two events, then the second event
 *   copy          copies to the host
 *   any           copies to the host, and leaves the direction to the driver
 *   crossed       waits for another stream, which waits for an event of the created stream
 *   threads       each of several threads waits for its launches, in a shared stream and in its own
 *   killed        waits like stream, and ends by SIGKILL instead of _exit()
 */
#define ENDS_WAYS(X)                                                                                                   \
    X(device)                                                                                                          \
    X(stream) X(own) X(joined) X(query) X(event) X(asked) X(elapsed) X(copy) X(any) X(crossed) X(threads) X(killed)

int ends_role(const char *name, unsigned count);

#endif
