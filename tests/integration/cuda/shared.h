/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that one process exports and another imports is charged to the exporter alone, with any vendor's library.
 *
 * Owns: the two processes, their steps, and the check of both charges after each step.
 * Never: calls a vendor's library; the test implements the steps. Each test includes this file once, after its
 * machine.h.
 */
#ifndef FACET_TEST_SHARED_H
#define FACET_TEST_SHARED_H

#include <stdlib.h>
#include <sys/wait.h>

#include "handed.h"

#define SHARED_BYTES (4 * MIB)
#define SHARED_TEXT  "hello"

/* Each step ends the role by CHECK() if the library fails. */
struct shared_steps {
    void (*make)(int *ret_fd, char data[HANDED_BYTES]); /* SHARED_BYTES that begin with SHARED_TEXT, exported */
    void (*import)(int fd, const char data[HANDED_BYTES]);
    void (*read_text)(char text[8]); /* maps the imported memory if necessary, and reads its beginning */
    void (*end_import)(void);
    void (*end_allocation)(void); /* NULL: the process's end does that */
    enum fake_kind kind;          /* of the memory, in the fake library's account */
};

/* How a process begins to use the device. */
struct shared_vendor {
    void (*enter)(void);
    uint64_t begin_bytes; /* the charge for it */
};
static const struct shared_vendor shared_vendor;

static void shared_check_own(uint64_t memory_bytes)
{
    CHECK_EQUAL(machine_charged_to_self(0), shared_vendor.begin_bytes + memory_bytes);
}

static void shared_import(const struct shared_steps *steps, int socket)
{
    char data[HANDED_BYTES], text[8] = "";
    int fd;

    CHECK(receive_descriptor(socket, &fd, data));
    steps->import(fd, data);
    shared_check_own(0);
    steps->read_text(text);
    CHECK_EQUAL(strcmp(text, SHARED_TEXT), 0);
    CHECK_EQUAL(machine_charged(0), 2 * shared_vendor.begin_bytes + fake_used_of_kind(0, steps->kind));
    shared_check_own(0);
    steps->end_import();
    shared_check_own(0);
    close(fd);
}

static void shared_export(const struct shared_steps *steps, int socket, pid_t importer)
{
    char data[HANDED_BYTES] = "";
    int fd, status = -1;

    steps->make(&fd, data);
    CHECK(fake_used_of_kind(0, steps->kind) >= SHARED_BYTES);
    CHECK(send_descriptor(socket, fd, data));
    CHECK(waitpid(importer, &status, 0) == importer);
    CHECK_EQUAL(status, 0);
    shared_check_own(fake_used_of_kind(0, steps->kind));
    if (steps->end_allocation) {
        uint64_t held = fake_used_of_kind(0, steps->kind);

        steps->end_allocation();
        shared_check_own(held); /* another process may still hold the exported memory */
    }
}

/* Forks before the library is initialised, because a child of an initialised process cannot use it. */
static void shared_role(void *argument)
{
    const struct shared_steps *steps = argument;
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    close(ends[pid == 0 ? 0 : 1]);
    shared_vendor.enter();
    if (pid == 0) {
        CHECK(write(ends[1], "", 1) == 1);
        shared_import(steps, ends[1]);
        _exit(0);
    }
    CHECK(read(ends[0], &(char){0}, 1) ==
          1); /* until the child has entered: no memory may change while its charge is measured */
    shared_export(steps, ends[0], pid);
}

static void shared_run(const struct shared_steps *steps)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine_wait(machine_start(shared_role, (void *)(uintptr_t)steps, true));
    machine_remove();
}

#endif
