/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hot-plug and unplug against a real QEMU, whose emulated `edu` stands in for a function of the host.
 * Never: needs an accelerator or an IOMMU; without QEMU it is skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach_request.h"
#include "base/cleanup.h"
#include "base/clock.h"

static const char program[] = "/usr/bin/qemu-system-x86_64";

struct machine {
    pid_t pid;
    char folder[64];
    char socket[96];  /* for the code under test */
    char control[96]; /* for the test */
};

static void start_qemu(const struct machine *machine)
{
    char monitor[128], control[128];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(monitor, sizeof monitor, "unix:%s,server=on,wait=off", machine->socket);
    snprintf(control, sizeof control, "unix:%s,server=on,wait=off", machine->control);
    execl(program, program, "-S", "-machine", "q35", "-m", "64", "-display", "none", "-nodefaults", "-accel", "tcg",
          "-device", "pcie-root-port,id=rp10,bus=pcie.0,chassis=10,slot=10", "-device",
          "pcie-root-port,id=rp2,bus=pcie.0,chassis=2,slot=2", "-device",
          "pcie-root-port,id=rp3,bus=pcie.0,chassis=3,slot=3,hotplug=off", "-qmp", monitor, "-qmp", control,
          (char *)NULL);
    _exit(127);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int set_up(void **state)
{
    struct machine *machine = calloc(1, sizeof *machine);

    *state = machine;
    if (access(program, X_OK) != 0)
        return 0;
    snprintf(machine->folder, sizeof machine->folder, "/tmp/facet-qemu-XXXXXX");
    assert_non_null(mkdtemp(machine->folder));
    snprintf(machine->socket, sizeof machine->socket, "%s/qmp", machine->folder);
    snprintf(machine->control, sizeof machine->control, "%s/control", machine->folder);
    machine->pid = fork();
    assert_true(machine->pid >= 0);
    if (machine->pid == 0)
        start_qemu(machine);
    for (int i = 0; i < 3000; i++) { /* for 30 s at most */
        int fd = connect_to(machine->control);
        if (fd >= 0)
            return close(fd);
        usleep(10000);
    }
    fail_msg("QEMU did not open its monitors");
    return -1;
}

static int tear_down(void **state)
{
    struct machine *machine = *state;

    if (machine->pid > 0) {
        kill(machine->pid, SIGKILL);
        waitpid(machine->pid, NULL, 0);
        unlink(machine->socket);
        unlink(machine->control);
        rmdir(machine->folder);
    }
    free(machine);
    return 0;
}

static const struct machine *machine_of(void **state)
{
    const struct machine *machine = *state;

    if (machine->pid == 0) {
        print_message("# SKIP %s is not installed\n", program);
        skip();
    }
    return machine;
}

/* Sends a command to the second monitor, and reads the line that answers it. */
static void control_monitor(const struct machine *machine, const char *command, char *answer, size_t size)
{
    char text[4096];
    FACET_CLEANUP_FD int fd = connect_to(machine->control);

    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text) > 0);
    int length = snprintf(text, sizeof text, "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"%s\"}\n", command);
    assert_int_equal(write(fd, text, (size_t)length), length);
    FACET_CLEANUP_FILE FILE *file = fdopen(dup(fd), "r");
    assert_non_null(file);
    for (int answers = 0; answers < 2;) {
        assert_non_null(fgets(answer, (int)size, file));
        answers += strncmp(answer, "{\"return\"", 9) == 0;
    }
}

static struct facet_qmp *connect_qmp(const struct machine *machine, const char *driver, uint64_t timeout_ms)
{
    struct facet_error error = {0};
    struct facet_qmp *qmp = NULL;
    enum facet_status status = facet_qmp_open(&(struct facet_qmp_config){.size = sizeof(struct facet_qmp_config),
                                                                         .socket = machine->socket,
                                                                         .driver = driver,
                                                                         .timeout_ns = timeout_ms * FACET_NS_PER_MS,
                                                                         .used_ns = 300 * FACET_NS_PER_MS},
                                              &qmp, &error);

    if (status != FACET_OK)
        fail_msg("%s", error.message);
    return qmp;
}

static enum facet_status attach_functions(const struct machine *machine, const char *driver,
                                          const struct facet_attach_request *request,
                                          struct facet_attach_report *reports, struct facet_error *error)
{
    struct facet_qmp *qmp = connect_qmp(machine, driver, 30000);

    reports_clear(reports, request->count);
    enum facet_status status = facet_qmp_attach(qmp, request, reports, error);
    facet_qmp_close(qmp);
    return status;
}

static enum facet_status detach_functions(const struct machine *machine, const struct facet_attach_function *functions,
                                          uint32_t count, uint64_t timeout_ms, struct facet_error *error)
{
    struct facet_qmp *qmp = connect_qmp(machine, NULL, timeout_ms);
    enum facet_status status = facet_qmp_detach(qmp, functions, count, error);

    facet_qmp_close(qmp);
    return status;
}

#define assert_says(error, text)                                                                                       \
    do {                                                                                                               \
        if (!strstr((error).message, text))                                                                            \
            fail_msg("'%s' does not say '%s'", (error).message, text);                                                 \
    } while (0)

static void both_functions_are_plugged_behind_the_first_free_port(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function pair[] = {FUNCTION(AT(1, 0, 0)), FUNCTION(AT(1, 0, 1))};
    const struct facet_attach_function other[] = {FUNCTION(AT(2, 0, 0))}, last[] = {FUNCTION(AT(3, 0, 0))};
    struct facet_attach_report reports[2];
    struct facet_error error = {0};

    assert_int_equal(attach_functions(machine, "edu", REQUEST(pair), reports, &error), FACET_OK);
    assert_string_equal(reports[0].port, "rp2");
    assert_string_equal(reports[1].port, "rp2");
    assert_string_equal(reports[1].id, "facet-0000-01-00.1");
    assert_int_equal(reports[1].function, 1);
    assert_int_equal(reports[0].used, FACET_PCI_UNKNOWN);
    assert_int_equal(attach_functions(machine, "edu", REQUEST(other), reports, &error), FACET_OK);
    assert_string_equal(reports[0].port, "rp10");
    assert_int_equal(attach_functions(machine, "edu", REQUEST(last), reports, &error), FACET_NO_SPACE);
    assert_says(error, "no root port is free");
    assert_int_equal(attach_functions(machine, "edu", REQUEST(pair), reports, &error), FACET_ALREADY_EXISTS);
}

static void unsuitable_ports_are_refused_with_a_reason(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function none[] = {FUNCTION(AT(1, 0, 0), .port = "rp9")};
    const struct facet_attach_function off[] = {FUNCTION(AT(1, 0, 0), .port = "rp3")};
    const struct facet_attach_function first[] = {FUNCTION(AT(1, 0, 0), .port = "rp10")};
    const struct facet_attach_function second[] = {FUNCTION(AT(2, 0, 0), .port = "rp10")};
    struct facet_attach_report reports[1];
    struct facet_error error = {0};

    assert_int_equal(attach_functions(machine, "edu", REQUEST(none), reports, &error), FACET_NOT_FOUND);
    assert_int_equal(attach_functions(machine, "edu", REQUEST(off), reports, &error), FACET_BAD_STATE);
    assert_int_equal(attach_functions(machine, "edu", REQUEST(first), reports, &error), FACET_OK);
    assert_string_equal(reports[0].port, "rp10");
    assert_int_equal(attach_functions(machine, "edu", REQUEST(second), reports, &error), FACET_BAD_STATE);
    assert_says(error, "holds a device already");
}

static void a_refusal_by_qemu_leaves_no_device(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function pair[] = {FUNCTION(AT(0xff, 0x1f, 6)), FUNCTION(AT(0xff, 0x1f, 7))};
    const struct facet_attach_function vmd[] = {
        FUNCTION(.address = {.domain = 0x10000, .bus = 0xff}, .romfile = "/a,b")};
    struct facet_attach_report reports[2];
    struct facet_error error = {0};

    /* The host has no function at this address, as QEMU's real vfio-pci reports. */
    assert_int_equal(attach_functions(machine, NULL, REQUEST(pair), reports, &error), FACET_BAD_STATE);
    assert_says(error, "facet-0000-ff-1f.7");
    assert_says(error, "device_add: QEMU refuses: vfio /sys/bus/pci/devices/0000:ff:1f.7");
    assert_int_equal(attach_functions(machine, NULL, REQUEST(vmd), reports, &error), FACET_BAD_STATE);
    assert_says(error, "10000:ff:00.0");
    assert_int_equal(attach_functions(machine, NULL, REQUEST(pair, .flags = FACET_ATTACH_IOMMUFD), reports, &error),
                     FACET_UNSUPPORTED);
    assert_int_equal(attach_functions(machine, "no-such-driver", REQUEST(pair), reports, &error), FACET_BAD_STATE);
    assert_int_equal(attach_functions(machine, "edu", REQUEST(pair), reports, &error), FACET_OK);
    assert_string_equal(reports[0].port, "rp2");
}

/* The guest learns of the request to unplug when the VM is reset. A second request may come until then. */
static void *reset_soon(void *context)
{
    char answer[4096];

    sleep(2);
    control_monitor(context, "system_reset", answer, sizeof answer);
    return NULL;
}

static void a_function_stays_until_the_guest_releases_it(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function pair[] = {FUNCTION(AT(1, 0, 0)), FUNCTION(AT(1, 0, 1))};
    struct facet_attach_report reports[2];
    struct facet_error error = {0};
    pthread_t thread;

    assert_int_equal(attach_functions(machine, "edu", REQUEST(pair), reports, &error), FACET_OK);
    assert_int_equal(detach_functions(machine, pair, 1, 30000, &error), FACET_BAD_STATE);
    assert_says(error, "shares its slot with");
    assert_int_equal(detach_functions(machine, pair, 2, 300, &error), FACET_TIMEOUT);
    assert_says(error, "'facet-0000-01-00.0': the guest has not given it up in time");
    assert_says(error, "the VM is 'prelaunch'");
    assert_int_equal(pthread_create(&thread, NULL, reset_soon, (void *)(uintptr_t)machine), 0);
    enum facet_status status = detach_functions(machine, pair, 2, 30000, &error);
    pthread_join(thread, NULL);
    if (status != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(detach_functions(machine, pair, 2, 30000, &error), FACET_NOT_FOUND);
    assert_int_equal(attach_functions(machine, "edu", REQUEST(pair), reports, &error), FACET_OK);
}

/* Waits until the guest's firmware uses the device, by giving it an address. */
static void wait_until_used(const struct machine *machine, const char *id)
{
    static char answer[65536];

    for (int i = 0; i < 3000; i++) { /* for 30 s at least */
        control_monitor(machine, "query-pci", answer, sizeof answer);
        const char *device = strstr(answer, id), *address = device ? strstr(device, "\"address\": ") : NULL;
        if (address && address[strlen("\"address\": ")] != '-')
            return;
        usleep(10000);
    }
    fail_msg("the firmware does not use '%s'", id);
}

static void a_report_says_whether_a_running_guest_uses_a_function(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function early[] = {FUNCTION(AT(1, 0, 0))}, late[] = {FUNCTION(AT(2, 0, 0))};
    struct facet_attach_report reports[1];
    struct facet_error error = {0};
    char answer[4096];

    assert_int_equal(attach_functions(machine, "edu", REQUEST(early), reports, &error), FACET_OK);
    assert_int_equal(reports[0].used, FACET_PCI_UNKNOWN);
    control_monitor(machine, "cont", answer, sizeof answer);
    wait_until_used(machine, "facet-0000-01-00.0");
    /* The firmware ignores functions that are plugged later. */
    assert_int_equal(attach_functions(machine, "edu", REQUEST(late), reports, &error), FACET_OK);
    assert_int_equal(reports[0].used, FACET_PCI_NO);
}

static void the_monitor_serves_one_client_at_a_time(void **state)
{
    const struct machine *machine = machine_of(state);
    struct facet_qmp *first = connect_qmp(machine, NULL, 30000), *second = NULL;
    struct facet_error error = {0};
    struct facet_qmp_config config = {
        .size = sizeof config, .socket = machine->socket, .timeout_ns = 200 * FACET_NS_PER_MS};

    assert_int_equal(facet_qmp_open(&config, &second, &error), FACET_TIMEOUT);
    assert_says(error, "one client at a time");
    assert_true(facet_qmp_version(first) >= FACET_ATTACH_VERSION(5, 0));
    assert_int_equal(facet_qmp_process(first), machine->pid);
    facet_qmp_close(first);
}

static void the_end_of_qemu_is_reported(void **state)
{
    const struct machine *machine = machine_of(state);
    const struct facet_attach_function one[] = {FUNCTION(AT(1, 0, 0))};
    struct facet_attach_report reports[1];
    struct facet_error error = {0};
    struct facet_qmp *qmp = connect_qmp(machine, "edu", 30000);

    reports_clear(reports, 1);
    kill(machine->pid, SIGKILL);
    assert_int_equal(facet_qmp_attach(qmp, REQUEST(one), reports, &error), FACET_IO);
    assert_says(error, "closed the socket");
    facet_qmp_close(qmp);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_functions_are_plugged_behind_the_first_free_port),
        TEST(unsuitable_ports_are_refused_with_a_reason),
        TEST(a_refusal_by_qemu_leaves_no_device),
        TEST(a_function_stays_until_the_guest_releases_it),
        TEST(a_report_says_whether_a_running_guest_uses_a_function),
        TEST(the_monitor_serves_one_client_at_a_time),
        TEST(the_end_of_qemu_is_reported),
    };

    return cmocka_run_group_tests_name("passthrough/qemu", tests, NULL, NULL);
}
