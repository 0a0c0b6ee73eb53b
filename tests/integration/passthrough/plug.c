/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: plugging a device of two functions into a running QEMU and unplugging it, by the library. The functions are
 * emulated, as the machine has no real device to pass through. Prints the result of each.
 * Never: is used outside of tests.
 *
 * usage: passthrough-plug SOCKET attach|detach
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <facet/attach.h>

#define SECONDS UINT64_C(1000000000)

static const struct facet_attach_function functions[2] = {
    {.size = sizeof functions[0], .address = {.bus = 1}},
    {.size = sizeof functions[0], .address = {.bus = 1, .function = 1}},
};

static enum facet_status attach_device(struct facet_qmp *qmp, struct facet_error *error)
{
    static const char *const used[] = {"unknown", "no", "yes"};
    const struct facet_attach_request request = {.size = sizeof request, .functions = functions, .count = 2};
    struct facet_attach_report reports[2] = {{.size = sizeof reports[0]}, {.size = sizeof reports[0]}};
    enum facet_status status = facet_qmp_attach(qmp, &request, reports, error);

    for (int i = 0; status == FACET_OK && i < 2; i++)
        printf("%s behind %s as function %" PRIu32 ", used: %s\n", reports[i].id, reports[i].port, reports[i].function,
               used[reports[i].used]);
    return status;
}

int main(int argc, char **argv)
{
    struct facet_error error = {0};
    struct facet_qmp *qmp = NULL;
    struct facet_qmp_config config = {.size = sizeof config, .driver = "edu"};

    if (argc != 3)
        return 2;
    config.socket = argv[1];
    /* An emulated machine on a busy host is slow. */
    config.timeout_ns = 100 * SECONDS;
    config.used_ns = 60 * SECONDS;
    enum facet_status status = facet_qmp_open(&config, &qmp, &error);
    if (status == FACET_OK && strcmp(argv[2], "attach") == 0)
        status = attach_device(qmp, &error);
    else if (status == FACET_OK)
        status = facet_qmp_detach(qmp, functions, 2, &error);
    facet_qmp_close(qmp);
    if (status != FACET_OK)
        fprintf(stderr, "%s\n", error.message);
    return status == FACET_OK ? 0 : 1;
}
