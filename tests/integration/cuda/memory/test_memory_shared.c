/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that memory which one process exports, and another imports, is its maker's in both accounts.
 * Never: handles of old (test_memory.c). */
#include <stdlib.h>
#include <sys/wait.h>

#include "../handed.h"
#include "machine.h"

#define GROWTH (32 * MIB) /* in which the fake's pools grow, as the driver's do */

static const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

/* Forks before the driver is initialised: a child of a process that has cannot use it. */
static pid_t begin(void (*importer)(int socket), int *ret_socket)
{
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        role_open();
        role_enter(0);
        importer(ends[1]);
        _exit(0);
    }
    CHECK(pid > 0);
    close(ends[1]);
    *ret_socket = ends[0];
    role_open();
    role_enter(0);
    return pid;
}

static void end(pid_t pid)
{
    int status = -1;

    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
}

/* What an importer has is its context, and no more. */
#define CHECK_PAYS_NOTHING() CHECK_EQUAL(machine_own(0), MACHINE_CONTEXT)

/* ---- memory without an address ---- */

static void import_handle(int socket)
{
    CUmemGenericAllocationHandle handle;
    char data[HANDED_BYTES], text[8] = "";
    CUdeviceptr address;
    int fd;

    CHECK(take_over(socket, &fd, data));
    CHECK_EQUAL(
        cuda.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_SUCCESS);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(cuda.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(address, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemSetAccess(address, 4 * MIB, &(CUmemAccessDesc){here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, 1),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemcpyDtoH_v2(text, address, 6), CUDA_SUCCESS);
    CHECK_EQUAL(strcmp(text, "hello"), 0);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT + 4 * MIB);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(cuda.cuMemUnmap(address, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_PAYS_NOTHING();
    close(fd);
}

static void role_exports(void *argument)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = here};
    CUmemGenericAllocationHandle handle;
    char data[HANDED_BYTES] = "";
    CUdeviceptr address;
    int fd, socket;
    pid_t pid = begin(import_handle, &socket);

    CHECK_EQUAL(cuda.cuMemCreate(&handle, 4 * MIB, &properties, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(address, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemSetAccess(address, 4 * MIB, &(CUmemAccessDesc){here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, 1),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemcpyHtoD_v2(address, "hello", 6), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_SUCCESS);
    CHECK(hand_over(socket, fd, data));
    end(pid);
    CHECK_EQUAL(machine_own(0), MACHINE_CONTEXT + 4 * MIB);
    CHECK_EQUAL(fake_held(0, FAKE_VIRTUAL), 4 * MIB);
}

static void test_an_imported_handle_is_its_makers_to_pay(void **state)
{
    machine_run(role_exports, GIB);
}

/* ---- pools ---- */

static void import_pool(int socket)
{
    CUmemPoolPtrExportData data;
    CUdeviceptr pointer, other;
    char text[8] = "";
    CUmemoryPool pool;
    int fd;

    CHECK(take_over(socket, &fd, &data));
    CHECK_EQUAL(cuda.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolImportPointer(&pointer, pool, &data), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemcpyDtoH_v2(text, pointer, 6), CUDA_SUCCESS);
    CHECK_EQUAL(strcmp(text, "hello"), 0);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&other, MIB, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_PAYS_NOTHING();
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT + GROWTH);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS);
    CHECK_PAYS_NOTHING();
    close(fd);
}

static void role_exports_pool(void *argument)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = here};
    CUmemPoolPtrExportData data;
    CUdeviceptr pointer;
    CUmemoryPool pool;
    int fd, socket;
    pid_t pid = begin(import_pool, &socket);

    CHECK_EQUAL(cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 4 * MIB, pool, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemcpyHtoD_v2(pointer, "hello", 6), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolExportPointer(&data, pointer), CUDA_SUCCESS);
    CHECK(hand_over(socket, fd, &data));
    end(pid);
    CHECK_EQUAL(machine_own(0), MACHINE_CONTEXT + GROWTH);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS);
    CHECK_EQUAL(machine_own(0), MACHINE_CONTEXT + GROWTH); /* for all that it can know, somebody has it on */
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

    return cmocka_run_group_tests(tests, NULL, NULL);
}
