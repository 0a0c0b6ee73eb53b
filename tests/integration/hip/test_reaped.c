/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the free memory that a program sees includes the memory of a killed child as soon as its parent has
 * waited for it. Never: lets the owner of the segment run, which would release that memory itself.
 */
#include <signal.h>
#include <sys/wait.h>

#include "machine.h"

#define QUOTA       (2 * GIB)
#define BLOCK_BYTES (512 * MIB)
#define ROUNDS      20

/* Holds a device and a block until it is killed. */
static void role_holds_memory(int ready)
{
    void *pointer;

    role_open();
    CHECK_EQUAL(hip.hipMalloc(&pointer, BLOCK_BYTES), hipSuccess);
    CHECK(write(ready, "x", 1) == 1);
    for (;;)
        pause();
}

static pid_t start_holder(void)
{
    int ready[2];
    char byte;

    CHECK(pipe(ready) == 0);
    pid_t pid = fork(); /* by a process that has not called HIP */
    if (pid == 0)
        role_holds_memory(ready[1]);
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

/* Answers each query with the free memory. */
static void role_answers_with_free_bytes(int questions, int answers)
{
    size_t free_bytes = 0, total = 0;
    char byte;

    role_open();
    CHECK_EQUAL(hip.hipFree(NULL), hipSuccess);
    while (read(questions, &byte, 1) == 1) {
        CHECK_EQUAL(hip.hipMemGetInfo(&free_bytes, &total), hipSuccess);
        CHECK(write(answers, &free_bytes, sizeof free_bytes) == (ssize_t)sizeof free_bytes);
    }
}

static size_t ask_child(const int *questions, const int *answers)
{
    size_t free_bytes = 0;

    CHECK(write(questions[1], "?", 1) == 1);
    CHECK(read(answers[0], &free_bytes, sizeof free_bytes) == (ssize_t)sizeof free_bytes);
    return free_bytes;
}

/* The parent does not use the runtime, so that it can fork. The process that queries free memory is a child, too. */
static void role_reaps_children(void *argument)
{
    const uint64_t free_alone = QUOTA - MACHINE_BEGIN, free_with_other = free_alone - MACHINE_BEGIN - BLOCK_BYTES;
    int questions[2], answers[2];

    CHECK(pipe(questions) == 0 && pipe(answers) == 0);
    pid_t asker = fork();
    if (asker == 0) {
        close(questions[1]);
        role_answers_with_free_bytes(questions[0], answers[1]);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = start_holder();

        CHECK_EQUAL(ask_child(questions, answers), free_with_other);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        CHECK_EQUAL(ask_child(questions, answers), free_alone);
    }
    close(questions[1]);
    CHECK(waitpid(asker, NULL, 0) == asker);
}

static void test_free_memory_is_right_as_soon_as_a_child_was_reaped(void **state)
{
    machine_run(role_reaps_children, QUOTA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_memory_is_right_as_soon_as_a_child_was_reaped),
    };
    return cmocka_run_group_tests_name("hip memory of reaped children", tests, NULL, NULL);
}
