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

/* Holds a context and a block until it is killed. */
static void role_holds_memory(void *argument)
{
    CUdeviceptr pointer;
    int ready = *(int *)argument;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, BLOCK_BYTES), CUDA_SUCCESS);
    CHECK(write(ready, "x", 1) == 1);
    for (;;)
        pause();
}

static pid_t start_holder(void)
{
    int ready[2];
    char byte;

    CHECK(pipe(ready) == 0);
    pid_t pid = fork(); /* by a process that has not called CUDA */
    if (pid == 0)
        role_holds_memory(&ready[1]);
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static uint64_t query_free_bytes(bool older_form)
{
    size_t free_bytes = 0, total = 0;
    unsigned free_32 = 0, total_32 = 0;

    if (!older_form) {
        CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
        return free_bytes;
    }
    CHECK_EQUAL(cuda.cuMemGetInfo(&free_32, &total_32), CUDA_SUCCESS);
    return free_32;
}

/* For each byte that the parent sends, queries free memory and answers with 8 bytes. The byte names the form of the
 * query: 'n' for the newest, 'o' for the older form. */
static void role_answers_with_free_bytes(const int *questions, const int *answers)
{
    char form;

    role_open();
    role_enter(0);
    while (read(questions[0], &form, 1) == 1) {
        uint64_t free_bytes = query_free_bytes(form == 'o');

        CHECK(write(answers[1], &free_bytes, sizeof free_bytes) == (ssize_t)sizeof free_bytes);
    }
}

static uint64_t ask_child(const int *questions, const int *answers, char form)
{
    uint64_t free_bytes = 0;

    CHECK(write(questions[1], &form, 1) == 1);
    CHECK(read(answers[0], &free_bytes, sizeof free_bytes) == (ssize_t)sizeof free_bytes);
    return free_bytes;
}

/* The parent has no context, so that it can fork. The process that queries free memory is a child, too. */
static void role_reaps_children(void *argument)
{
    const uint64_t free_alone = QUOTA - MACHINE_CONTEXT, free_with_other = free_alone - MACHINE_CONTEXT - BLOCK_BYTES;
    int questions[2], answers[2];

    CHECK(pipe(questions) == 0 && pipe(answers) == 0);
    pid_t asker = fork();
    if (asker == 0) {
        close(questions[1]);
        role_answers_with_free_bytes(questions, answers);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = start_holder();

        for (int j = 0; j < 3; j++)
            CHECK_EQUAL(ask_child(questions, answers, "no"[i % 2]), free_with_other);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        CHECK_EQUAL(ask_child(questions, answers, "no"[i % 2]), free_alone);
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
    return cmocka_run_group_tests_name("cuda memory of reaped children", tests, NULL, NULL);
}
