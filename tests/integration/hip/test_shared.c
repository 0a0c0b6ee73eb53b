/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that memory which one process exports, and another imports, is its maker's in both accounts.
 * Never: handles of old, which are allocations'. */
#include <stdlib.h>
#include <sys/wait.h>

#include "../cuda/handed.h"
#include "machine.h"

static const hipMemLocation here = {.type = hipMemLocationTypeDevice};

/* Forks before the runtime is there: a child of a process that has cannot use it. */
static pid_t begin(void (*importer)(int socket), int *ret_socket)
{
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        role_open();
        CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
        importer(ends[1]);
        _exit(0);
    }
    CHECK(pid > 0);
    close(ends[1]);
    *ret_socket = ends[0];
    role_open();
    CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
    return pid;
}

static void end(pid_t pid)
{
    int status = -1;

    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
}

/* What an importer has is its beginning, and no more. */
#define CHECK_PAYS_NOTHING() CHECK_EQUAL(machine_own(0), MACHINE_BEGIN)

/* ---- memory without an address ---- */

static void import_handle(int socket)
{
    hipMemGenericAllocationHandle_t handle;
    char data[HANDED_BYTES], text[8] = "";
    void *address;
    int fd;

    CHECK(take_over(socket, &fd, data));
    CHECK_EQUAL(hip.hipMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, hipMemHandleTypePosixFileDescriptor),
                hipSuccess);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(hip.hipMemAddressReserve(&address, 4 * MIB, 0, NULL, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemMap(address, 4 * MIB, 0, handle, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemSetAccess(address, 4 * MIB, &(hipMemAccessDesc){here, hipMemAccessFlagsProtReadWrite}, 1),
                hipSuccess);
    CHECK_EQUAL(hip.hipMemcpy(text, address, 6, hipMemcpyDeviceToHost), hipSuccess);
    CHECK_EQUAL(strcmp(text, "hello"), 0);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_BEGIN + 4 * MIB);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(hip.hipMemUnmap(address, 4 * MIB), hipSuccess);
    CHECK_EQUAL(hip.hipMemRelease(handle), hipSuccess);
    CHECK_PAYS_NOTHING();
    close(fd);
}

static void role_exports(void *argument)
{
    hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                       .requestedHandleTypes = hipMemHandleTypePosixFileDescriptor,
                                       .location = here};
    hipMemGenericAllocationHandle_t handle;
    char data[HANDED_BYTES] = "";
    void *address;
    int fd, socket;
    pid_t pid = begin(import_handle, &socket);

    CHECK_EQUAL(hip.hipMemCreate(&handle, 4 * MIB, &properties, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemAddressReserve(&address, 4 * MIB, 0, NULL, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemMap(address, 4 * MIB, 0, handle, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemSetAccess(address, 4 * MIB, &(hipMemAccessDesc){here, hipMemAccessFlagsProtReadWrite}, 1),
                hipSuccess);
    CHECK_EQUAL(hip.hipMemcpy(address, "hello", 6, hipMemcpyHostToDevice), hipSuccess);
    CHECK_EQUAL(hip.hipMemExportToShareableHandle(&fd, handle, hipMemHandleTypePosixFileDescriptor, 0), hipSuccess);
    CHECK(hand_over(socket, fd, data));
    end(pid);
    CHECK_EQUAL(machine_own(0), MACHINE_BEGIN + 4 * MIB);
    CHECK_EQUAL(fake_held(0, FAKE_VIRTUAL), 4 * MIB);
}

static void test_an_imported_handle_is_its_makers_to_pay(void **state)
{
    machine_run(role_exports, GIB);
}

/* ---- pools ---- */

static void import_pool(int socket)
{
    hipMemPoolPtrExportData data;
    void *pointer, *other;
    char text[8] = "";
    hipMemPool_t pool;
    int fd;

    CHECK(take_over(socket, &fd, &data));
    CHECK_EQUAL(
        hip.hipMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, hipMemHandleTypePosixFileDescriptor, 0),
        hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolImportPointer(&pointer, pool, &data), hipSuccess);
    CHECK_EQUAL(hip.hipMemcpy(text, pointer, 6, hipMemcpyDeviceToHost), hipSuccess);
    CHECK_EQUAL(strcmp(text, "hello"), 0);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(hip.hipMallocFromPoolAsync(&other, MIB, pool, NULL), hipErrorInvalidValue);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_BEGIN + fake_held(0, FAKE_POOL));
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolDestroy(pool), hipSuccess);
    CHECK_PAYS_NOTHING();
    close(fd);
}

static void role_exports_pool(void *argument)
{
    hipMemPoolProps properties = {
        .allocType = hipMemAllocationTypePinned, .handleTypes = hipMemHandleTypePosixFileDescriptor, .location = here};
    hipMemPoolPtrExportData data;
    void *pointer;
    hipMemPool_t pool;
    int fd, socket;
    pid_t pid = begin(import_pool, &socket);

    CHECK_EQUAL(hip.hipMemPoolCreate(&pool, &properties), hipSuccess);
    CHECK_EQUAL(hip.hipMallocFromPoolAsync(&pointer, 4 * MIB, pool, NULL), hipSuccess);
    CHECK_EQUAL(hip.hipMemcpy(pointer, "hello", 6, hipMemcpyHostToDevice), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolExportToShareableHandle(&fd, pool, hipMemHandleTypePosixFileDescriptor, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolExportPointer(&data, pointer), hipSuccess);
    CHECK(hand_over(socket, fd, &data));
    end(pid);
    CHECK_EQUAL(machine_own(0), MACHINE_BEGIN + fake_held(0, FAKE_POOL));
    CHECK_EQUAL(hip.hipFreeAsync(pointer, NULL), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolDestroy(pool), hipSuccess);
    CHECK_EQUAL(machine_own(0),
                MACHINE_BEGIN + fake_held(0, FAKE_POOL)); /* for all that it can know, somebody has it on */
}

static void test_an_imported_pool_is_its_makers_to_pay(void **state)
{
    machine_run(role_exports_pool, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_imported_handle_is_its_makers_to_pay),
        cmocka_unit_test(test_an_imported_pool_is_its_makers_to_pay),
    };

    return cmocka_run_group_tests_name("hip/shared", tests, NULL, NULL);
}
