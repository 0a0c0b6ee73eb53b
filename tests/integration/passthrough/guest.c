/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program inside the virtual machine: uses functions through the VFIO client, and prints a line for each check.
 *
 * Owns: the checks that need an open function. Never: binds a function or gives it back; the script does.
 *
 * usage: passthrough-guest VERB ADDRESS [ARGUMENT]
 *     open, config, edu, memory, memlock, reset
 *     hold     request|error|nothing: the event to wait for
 *     bus      another ADDRESS, of the same group
 *     share    another ADDRESS, of another group
 * The variable WAY says how a function is opened, by its "group" or its character device ("cdev"). Without the variable
 * the client chooses.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/pci_regs.h>

#include "passthrough/vfio/client.h"

#define MEMORY_BYTES (UINT64_C(1) << 20)
#define IOVA         (UINT64_C(1) << 32) /* no memory of the machine is here, so the IOMMU must translate it */
#define TIMEOUT_MS   60000

/* Constants of QEMU's educational device, from QEMU's docs/specs/edu.txt. */
enum {
    EDU_ID = 0x00,
    EDU_LIVENESS = 0x04, /* answers the written word, inverted */
    EDU_FACTORIAL = 0x08,
    EDU_STATUS = 0x20, /* 1: computing, 0x80: interrupt when done */
    EDU_CAUSE = 0x24,
    EDU_RAISE = 0x60,
    EDU_ACKNOWLEDGE = 0x64,
    EDU_SOURCE = 0x80,
    EDU_DESTINATION = 0x88,
    EDU_COUNT = 0x90,
    EDU_COMMAND = 0x98, /* 1: go, 2: to memory, 4: interrupt when done */
    EDU_BUFFER = 0x40000,
    EDU_BYTES = 1 << 20,
};

static int failures;
static struct facet_error error;
static struct facet_vfio_space *space;
static struct facet_vfio_device *device;

static bool check_that(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool check_that(bool good, const char *format, ...)
{
    va_list arguments;

    printf("%s - ", good ? "ok" : "not ok");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    failures += !good;
    return good;
}

static bool check_success(enum facet_status status, const char *what)
{
    if (status != FACET_OK)
        printf("# %s: %s\n", facet_status_name(status), error.message);
    return check_that(status == FACET_OK, "%s", what);
}

/* Expects a refusal with the status `expected` and both fragments in the message. */
static bool check_refusal(enum facet_status status, enum facet_status expected, const char *fragment, const char *other,
                          const char *what)
{
    bool good = status == expected && strstr(error.message, fragment) && strstr(error.message, other);

    printf("# %s: %s\n", facet_status_name(status), status == FACET_OK ? "" : error.message);
    return check_that(good, "%s", what);
}

static enum facet_status open_device(const char *address)
{
    struct facet_vfio_system system = facet_vfio_system_real(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const char *name = getenv("WAY");
    enum facet_vfio_way way = FACET_VFIO_ANY;
    enum facet_status status;

    if (name)
        way = strcmp(name, "cdev") == 0 ? FACET_VFIO_CDEV : FACET_VFIO_GROUP;
    status = facet_vfio_space_open(&system, way, &space, &error);
    if (status == FACET_OK)
        status = facet_vfio_device_open(space, address, &device, &error);
    return status;
}

static void close_device(void)
{
    facet_vfio_device_close(device);
    facet_vfio_space_close(space);
}

static void *new_memory(void)
{
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* --- open, config --- */

static int check_open(void)
{
    struct facet_vfio_device_info info = facet_vfio_device_describe(device);

    printf("# group %d, %u regions, %u kinds of interrupts, %s\n", info.group, info.region_count, info.interrupt_count,
           info.can_reset ? "can be reset" : "cannot be reset alone");
    return 0;
}

static void check_identity(const char *address)
{
    char path[96], text[16] = "";
    uint8_t config[4] = {0};
    uint32_t expected;
    FILE *file;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    file = fopen(path, "r");
    expected = file && fgets(text, sizeof text, file) ? (uint32_t)strtoul(text, NULL, 16) : 0;
    if (file)
        fclose(file);
    if (!check_success(facet_vfio_device_read(device, FACET_VFIO_CONFIG, 0, config, sizeof config, &error),
                       "reads the config space"))
        return;
    check_that(expected != 0 && (uint32_t)(config[0] | config[1] << 8) == expected, "its vendor is %#" PRIx32,
               expected);
}

static int check_config(const char *address)
{
    struct facet_vfio_region region = {0};
    uint8_t byte;

    check_identity(address);
    check_success(facet_vfio_device_region(device, FACET_VFIO_CONFIG, &region, &error), "describes the config space");
    check_refusal(facet_vfio_device_read(device, FACET_VFIO_CONFIG, region.bytes, &byte, 1, &error), FACET_OUT_OF_RANGE,
                  address, "region 7", "reads nothing behind the config space");
    return failures;
}

/* --- edu --- */

static volatile uint8_t *bar;

static uint32_t get_word(uint32_t at)
{
    return *(volatile uint32_t *)(bar + at);
}

static void put_word(uint32_t at, uint32_t value)
{
    *(volatile uint32_t *)(bar + at) = value;
}

static void put64(uint32_t at, uint64_t value)
{
    *(volatile uint64_t *)(bar + at) = value;
}

static void check_switched_off(void)
{
    static const uint8_t off[2];
    uint32_t word = 0;

    check_success(facet_vfio_device_write(device, FACET_VFIO_CONFIG, PCI_COMMAND, off, sizeof off, &error),
                  "switches its memory off");
    check_refusal(facet_vfio_device_read(device, FACET_VFIO_BAR, EDU_ID, &word, sizeof word, &error), FACET_IO,
                  "reading region 0", "its memory is off", "a read of BAR 0 is then refused with the reason");
}

static bool map_edu(void)
{
    struct facet_vfio_region region = {0};
    void *memory = NULL;
    uint32_t word = 0;

    if (!check_success(facet_vfio_device_enable(device, &error), "switches memory and bus mastering on") ||
        !check_success(facet_vfio_device_region(device, FACET_VFIO_BAR, &region, &error), "describes BAR 0") ||
        !check_that(region.bytes == EDU_BYTES && region.can_map, "BAR 0 has a megabyte that can be mapped") ||
        !check_success(facet_vfio_device_map(device, FACET_VFIO_BAR, 0, EDU_BYTES, &memory, &error), "maps BAR 0"))
        return false;
    bar = memory;
    check_success(facet_vfio_device_read(device, FACET_VFIO_BAR, EDU_ID, &word, sizeof word, &error),
                  "reads BAR 0 through the kernel");
    check_that((get_word(EDU_ID) & 0xff) == 0xed && get_word(EDU_ID) == word, "both reads give edu's id: %#" PRIx32,
               word);
    put_word(EDU_LIVENESS, 0x12345678);
    check_that(get_word(EDU_LIVENESS) == ~UINT32_C(0x12345678), "edu is alive: it inverts the written word");
    return true;
}

/* Waits for a signal of the eventfd, at most TIMEOUT_MS. Returns how many signals came; 0: none. */
static uint64_t wait_for(int eventfd)
{
    struct pollfd signal = {.fd = eventfd, .events = POLLIN};
    uint64_t count = 0;

    if (poll(&signal, 1, TIMEOUT_MS) == 1 && read(eventfd, &count, sizeof count) != sizeof count)
        count = 0;
    return count;
}

static void check_interrupt(enum facet_vfio_interrupt kind, const char *name, int eventfd)
{
    struct facet_vfio_interrupt_info info = {0};
    uint64_t count;

    if (facet_vfio_device_interrupt_info(device, kind, &info, &error) != FACET_OK || info.count != 1) {
        check_that(false, "%s: has one interrupt, not %" PRIu32, name, info.count);
        return;
    }
    if (facet_vfio_device_interrupt(device, kind, &eventfd, 1, &error) != FACET_OK) {
        check_that(false, "%s: %s", name, error.message);
        return;
    }
    put_word(EDU_RAISE, 2); /* the bits that EDU_CAUSE will have; any but 0 raise an interrupt */
    count = wait_for(eventfd);
    check_that(count >= 1, "%s: the eventfd is signalled", name);
    put_word(EDU_ACKNOWLEDGE, get_word(EDU_CAUSE));
    if (info.auto_masked) {
        facet_vfio_device_unmask(device, kind, &error);
        put_word(EDU_RAISE, 4);
        check_that(wait_for(eventfd) >= 1, "%s: it is signalled again after unmasking", name);
        put_word(EDU_ACKNOWLEDGE, get_word(EDU_CAUSE));
    }
    if (facet_vfio_device_interrupt(device, kind, NULL, 0, &error) != FACET_OK)
        check_that(false, "%s: switched off: %s", name, error.message);
}

static void check_factorial(int eventfd)
{
    check_success(facet_vfio_device_interrupt(device, FACET_VFIO_MSI, &eventfd, 1, &error), "MSI goes to an eventfd");
    put_word(EDU_STATUS, 0x80);
    put_word(EDU_FACTORIAL, 10);
    check_that(wait_for(eventfd) == 1 && get_word(EDU_FACTORIAL) == 3628800, "edu computes 10! and then raises an MSI");
    put_word(EDU_ACKNOWLEDGE, get_word(EDU_CAUSE));
    put_word(EDU_STATUS, 0);
}

/* Starts a transfer of 64 bytes and waits for its end; the device begins shortly after the command. */
static bool move_bytes(uint64_t from, uint64_t to, uint32_t command)
{
    struct timespec moment = {.tv_nsec = 10000000};

    put64(EDU_SOURCE, from);
    put64(EDU_DESTINATION, to);
    put64(EDU_COUNT, 64);
    put64(EDU_COMMAND, command);
    for (int waited = 0; get_word(EDU_COMMAND) & 1 && waited < TIMEOUT_MS; waited += 10)
        nanosleep(&moment, NULL);
    return !(get_word(EDU_COMMAND) & 1);
}

static void check_dma(void)
{
    static const char text[] = "through the IOMMU and back";
    char *memory = new_memory();

    if (!check_success(
            facet_vfio_space_map(space, IOVA, memory, MEMORY_BYTES, FACET_VFIO_READ | FACET_VFIO_WRITE, &error),
            "maps memory for the function"))
        return;
    memcpy(memory, text, sizeof text);
    check_that(move_bytes(IOVA, EDU_BUFFER, 1) && move_bytes(EDU_BUFFER, IOVA + 4096, 3),
               "edu moves memory to itself and back");
    check_that(memcmp(memory + 4096, text, sizeof text) == 0, "the bytes that came back are the original ones");
    check_success(facet_vfio_space_unmap(space, IOVA, MEMORY_BYTES, &error), "unmaps the memory");
    memset(memory, 0, MEMORY_BYTES);
    check_that(move_bytes(EDU_BUFFER, IOVA + 4096, 3), "a transfer to an unmapped address ends");
    check_that(memory[4096] == 0, "the memory that was unmapped is unchanged");
    munmap(memory, MEMORY_BYTES);
}

static int check_edu(void)
{
    int signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    check_switched_off();
    if (!map_edu())
        return 1;
    check_interrupt(FACET_VFIO_INTX, "INTx", signal);
    check_interrupt(FACET_VFIO_MSI, "MSI", signal);
    check_factorial(signal);
    check_dma();
    facet_vfio_unmap((void *)(uintptr_t)bar, EDU_BYTES);
    close(signal);
    return failures;
}

/* --- memory --- */

#define READ_WRITE (FACET_VFIO_READ | FACET_VFIO_WRITE)

static void check_overlaps(char *memory)
{
    struct facet_vfio_space_info info = {0};

    check_success(facet_vfio_space_describe(space, &info, &error), "describes the address space");
    check_that(info.page_sizes & 4096 && info.range_count >= 1, "the space has pages of 4 KiB, and %" PRIu32 " ranges",
               info.range_count);
    check_success(facet_vfio_space_map(space, IOVA, memory, 8192, READ_WRITE, &error), "maps two pages");
    check_refusal(facet_vfio_space_map(space, IOVA + 4096, memory, 4096, READ_WRITE, &error), FACET_ALREADY_EXISTS,
                  "already", "0x100001000", "refuses a mapping over another");
    if (facet_vfio_space_way(space) == FACET_VFIO_GROUP)
        check_refusal(facet_vfio_space_unmap(space, IOVA, 4096, &error), FACET_INVALID_ARGUMENT, "cut", "0x100000000",
                      "refuses to cut a mapping in two");
    else
        check_refusal(facet_vfio_space_unmap(space, IOVA, 4096, &error), FACET_NOT_FOUND, "no whole mapping",
                      "0x100000000", "refuses to cut a mapping in two");
    check_success(facet_vfio_space_unmap(space, IOVA, 8192, &error), "unmaps both pages");
    check_refusal(facet_vfio_space_unmap(space, IOVA, 8192, &error), FACET_NOT_FOUND, "no whole", "0x100000000",
                  "finds nothing to unmap in the same range again");
    check_refusal(facet_vfio_space_map(space, UINT64_C(1) << 62, memory, 4096, READ_WRITE, &error), FACET_OUT_OF_RANGE,
                  "reaches", "0x4000000000000000", "refuses what the IOMMU cannot reach");
    check_refusal(facet_vfio_space_map(space, UINT64_C(0xfee00000), memory, 4096, READ_WRITE, &error),
                  FACET_OUT_OF_RANGE, "reaches", "0xfee00000", "refuses the window of interrupts");
}

/* Tries to make one more mapping than the module allows a container. The script has lowered that number. */
static void check_mappings_left(char *memory)
{
    struct facet_vfio_space_info info = {0};
    uint32_t made = 0;

    facet_vfio_space_describe(space, &info, &error);
    if (!check_that(info.mappings_left > 0 && info.mappings_left <= 64, "%" PRIu32 " mappings are left",
                    info.mappings_left))
        return;
    while (made < info.mappings_left &&
           facet_vfio_space_map(space, IOVA + made * 8192, memory, 4096, READ_WRITE, &error) == FACET_OK)
        made++;
    check_that(made == info.mappings_left, "that many mappings can be made");
    check_refusal(facet_vfio_space_map(space, IOVA + made * 8192, memory, 4096, READ_WRITE, &error), FACET_NO_SPACE,
                  "mappings left: 0", "dma_entry_limit", "one more is refused, and the message names the limit");
    check_success(facet_vfio_space_unmap(space, IOVA, made * 8192, &error), "unmaps them all at once");
}

/* Root may lock any amount of memory, so this drops that capability and sets a limit. */
static bool give_up_locking(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capget, &header, data) != 0)
        return false;
    data[0].effective &= ~(UINT32_C(1) << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) == 0;
}

static int check_memlock(void)
{
    char *memory = new_memory();

    check_that(give_up_locking(), "may lock 64 KiB only");
    check_success(facet_vfio_space_map(space, IOVA, memory, 32768, READ_WRITE, &error), "maps 32 KiB");
    check_refusal(facet_vfio_space_map(space, IOVA << 1, memory, 65536, READ_WRITE, &error), FACET_QUOTA,
                  "may lock 65536 bytes", "has locked 32768; raise memlock to 98304",
                  "a mapping beyond the limit is refused with the numbers");
    munmap(memory, MEMORY_BYTES);
    return failures;
}

static int check_memory(void)
{
    char *memory = new_memory();

    check_overlaps(memory);
    if (facet_vfio_space_way(space) == FACET_VFIO_GROUP)
        check_mappings_left(memory);
    munmap(memory, MEMORY_BYTES);
    return failures;
}

/* --- reset, hold --- */

static int check_reset(void)
{
    if (facet_vfio_device_describe(device).can_reset) {
        check_success(facet_vfio_device_enable(device, &error), "switches memory and bus mastering on");
        check_success(facet_vfio_device_reset(device, &error), "resets the function");
        check_success(facet_vfio_device_enable(device, &error), "the function can be used after the reset");
    } else {
        check_refusal(facet_vfio_device_reset(device, &error), FACET_UNSUPPORTED, "reset alone", "",
                      "cannot be reset alone");
    }
    return failures;
}

/* Keeps the function open until it reports an error, or the host requests it back. */
static int check_hold(const char *event)
{
    bool error_is_awaited = strcmp(event, "error") == 0;
    int signal = eventfd(0, EFD_CLOEXEC);

    if (strcmp(event, "nothing") == 0) { /* ignores requests, as a hanging VM does, until it is killed */
        printf("# holding\n");
        return pause();
    }
    check_success(facet_vfio_device_interrupt(device, error_is_awaited ? FACET_VFIO_ERROR : FACET_VFIO_REQUEST, &signal,
                                              1, &error),
                  error_is_awaited ? "requests a signal for errors" : "requests a signal for the host's requests");
    printf("# holding\n");
    check_that(wait_for(signal) >= 1, "gets the signal for the %s", event);
    return failures;
}

/* Opens two functions of one group in one address space. Resetting the bus resets both. */
static int check_bus(const char *other)
{
    struct facet_vfio_device *second = NULL;

    check_success(facet_vfio_device_open(space, other, &second, &error), "both are opened in one address space");
    check_success(facet_vfio_device_reset_bus(device, &error), "resets their bus");
    if (second)
        check_success(facet_vfio_device_enable(second, &error), "both can be used after that");
    facet_vfio_device_close(second);
    return failures;
}

/* Opens two functions of two groups in one address space. Both see its mappings, which exist until both are closed. */
static int check_share(const char *other)
{
    struct facet_vfio_device *second = NULL;
    void *memory = new_memory();

    check_success(facet_vfio_space_map(space, IOVA, memory, MEMORY_BYTES, READ_WRITE, &error),
                  "maps memory for the first");
    check_success(facet_vfio_device_open(space, other, &second, &error),
                  "opens another group in the same address space");
    if (second)
        check_that(facet_vfio_device_describe(device).group != facet_vfio_device_describe(second).group ||
                       facet_vfio_space_way(space) == FACET_VFIO_CDEV,
                   "it is another group");
    facet_vfio_device_close(device);
    device = second;
    check_success(facet_vfio_space_unmap(space, IOVA, MEMORY_BYTES, &error), "the mapping outlives the first");
    munmap(memory, MEMORY_BYTES);
    return failures;
}

static int run_verb(const char *verb, const char *address, const char *argument)
{
    if (strcmp(verb, "share") == 0)
        return check_share(argument);
    if (strcmp(verb, "bus") == 0)
        return check_bus(argument);
    if (strcmp(verb, "open") == 0)
        return check_open();
    if (strcmp(verb, "config") == 0)
        return check_config(address);
    if (strcmp(verb, "edu") == 0)
        return check_edu();
    if (strcmp(verb, "memory") == 0)
        return check_memory();
    if (strcmp(verb, "memlock") == 0)
        return check_memlock();
    if (strcmp(verb, "reset") == 0)
        return check_reset();
    if (strcmp(verb, "hold") == 0)
        return check_hold(argument);
    fprintf(stderr, "passthrough-guest: '%s': expected open, config, edu, memory, memlock, reset, hold, bus or share\n",
            verb);
    return 2;
}

int main(int argc, char **argv)
{
    const char *argument = argc > 3 ? argv[3] : "";
    enum facet_status status;
    int result = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3) {
        fprintf(stderr, "usage: passthrough-guest VERB ADDRESS [ARGUMENT]\n");
        return 2;
    }
    status = open_device(argv[2]);
    if (status == FACET_OK)
        result = run_verb(argv[1], argv[2], argument) != 0;
    else
        printf("# %s: %s\n", facet_status_name(status), error.message);
    close_device();
    return result;
}
