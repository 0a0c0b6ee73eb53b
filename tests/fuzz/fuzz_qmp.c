/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing QEMU's messages while devices are attached or detached. The first byte chooses between the two, and
 * between iommufd and the older interface; the rest are the messages.
 * Never: waits for a message: the other end of the socket is shut down after the last one.
 */
#include <sys/socket.h>
#include <unistd.h>

#include <facet/attach.h>

#include "base/clock.h"
#include "fuzz.h"
#include "passthrough/attach/qmp.h"

enum { DETACH = 1, IOMMUFD = 2 }; /* bits of the first byte */

enum { PEER_FD = 100 };

/* A socket whose other end has sent as much of the data as a socket takes at once. */
static int socket_with(const uint8_t *data, size_t size)
{
    int ends[2];

    FUZZ_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    if (size > 0)
        FUZZ_ASSERT(send(ends[1], data, size, MSG_NOSIGNAL) > 0);
    shutdown(ends[1], SHUT_WR);
    /* PEER_FD keeps the other end open until the input is finished, so that commands sent to it do not fail. */
    FUZZ_ASSERT(dup2(ends[1], PEER_FD) == PEER_FD);
    close(ends[1]);
    return ends[0];
}

static void check_error(enum facet_status status, const struct facet_error *error)
{
    if (status == FACET_OK)
        return;
    FUZZ_ASSERT(error->status == status && error->message[0]);
    FUZZ_ASSERT(memchr(error->message, '\0', sizeof error->message));
    FUZZ_ASSERT(!strchr(error->message, '\n'));
}

static void attach_function(struct facet_qmp *qmp, const struct facet_attach_request *request)
{
    struct facet_attach_report reports[2] = {{.size = sizeof reports[0]}, {.size = sizeof reports[0]}};
    struct facet_error error = {0};
    enum facet_status status = facet_qmp_attach(qmp, request, reports, &error);

    check_error(status, &error);
    for (uint32_t i = 0; i < 2; i++) {
        FUZZ_ASSERT((reports[i].id[0] != '\0') == (status == FACET_OK));
        FUZZ_ASSERT((reports[i].port[0] != '\0') == (status == FACET_OK));
        FUZZ_ASSERT(reports[i].used <= FACET_PCI_YES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct facet_attach_function functions[] = {
        {.size = sizeof functions[0], .address = {.bus = 1}},
        {.size = sizeof functions[0], .address = {.bus = 1, .function = 1}},
    };
    struct facet_attach_request request = {.size = sizeof request, .functions = functions, .count = 2};
    uint8_t choice = size ? data[0] : 0;
    char name[] = "fuzz";
    struct facet_error error = {0};
    struct facet_qmp qmp = {.socket = name, .driver = "vfio-pci", .used_ns = FACET_NS_PER_MS};

    qmp.wire.fd = socket_with(data + (size > 0), size - (size > 0));
    qmp.wire.deadline_ns = facet_clock_now_ns() + FACET_NS_PER_S;
    request.flags = choice & IOMMUFD ? FACET_ATTACH_IOMMUFD : 0;
    enum facet_status status = facet_qmp_greet(&qmp, &error);
    check_error(status, &error);
    if (status == FACET_OK && (choice & DETACH))
        check_error(facet_qmp_detach(&qmp, functions, 2, &error), &error);
    else if (status == FACET_OK)
        attach_function(&qmp, &request);
    FUZZ_ASSERT(!qmp.watches);
    facet_wire_close(&qmp.wire);
    close(PEER_FD);
    return 0;
}
