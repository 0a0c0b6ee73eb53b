/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about opening a device table while the Nth call into the system fails, for every N. Each failure is
 * visible: opening fails with a reason, a provider is refused with a reason, or a device's health is unknown. No child
 * and no descriptor is left behind, and an open that failed leaves no table.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../provider_process.h"
#include "device/table.h"
#include "fixtures.h"

static int *countdown; /* the call that brings it to 0 fails; shared with the process that starts a provider */

static bool call_fails(int errnum)
{
    if (!countdown || *countdown == 0 || --*countdown > 0)
        return false;
    errno = errnum;
    return true;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_calloc(count, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_malloc(size);
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_realloc(memory, size);
}

int __real_clone(int (*begin)(void *), void *stack, int flags, void *data);
int __wrap_clone(int (*begin)(void *), void *stack, int flags, void *data);
int __wrap_clone(int (*begin)(void *), void *stack, int flags, void *data)
{
    return call_fails(EAGAIN) ? -1 : __real_clone(begin, stack, flags, data);
}

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return call_fails(ENOMEM) ? MAP_FAILED : __real_mmap64(at, bytes, protection, flags, fd, offset);
}

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return call_fails(EAGAIN) ? EAGAIN : __real_posix_spawn(pid, path, actions, attributes, arguments, environment);
}

int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
    return call_fails(EMFILE) ? -1 : __real_socketpair(domain, type, protocol, ends);
}

typedef int (*filter)(const struct dirent *);
typedef int (*order)(const struct dirent **, const struct dirent **);

int __real_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before);
int __wrap_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before);
int __wrap_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before)
{
    return call_fails(EACCES) ? -1 : __real_scandir64(folder, entries, wanted, before);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return call_fails(ENOMEM) ? NULL : __real_strdup(text);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The content of a table for which no call failed. */
struct expectation {
    uint32_t loaded;
    uint32_t known; /* devices whose health is known */
};

/* Whether the table lacks a provider or a device's health. Asserts that each refused provider has a reason. */
static bool is_incomplete(const struct facet_device_table *table, const struct expectation *complete)
{
    uint32_t loaded = 0, known = 0;

    for (uint32_t i = 0; i < facet_provider_count(table); i++) {
        const struct facet_provider_record *provider = facet_provider_at(table, i);

        loaded += provider->state == FACET_PROVIDER_LOADED;
        assert_true(provider->state == FACET_PROVIDER_LOADED || provider->reason.message[0]);
    }
    for (uint32_t i = 0; i < facet_device_table_count(table); i++)
        known += facet_device_table_at(table, i)->health != FACET_HEALTH_UNKNOWN;
    return loaded < complete->loaded || known < complete->known;
}

/* Opens with the Nth call failing, for every N. Returns the number of calls that can fail. */
static int open_until_success(const char *paths, const struct expectation *complete)
{
    int before = open_descriptors();

    for (int n = 1; n < 200; n++) {
        struct facet_device_table *table = NULL;
        struct facet_error error = {0};

        *countdown = n;
        enum facet_status status = facet_device_table_open(paths, &table, &error);
        bool no_call_failed = *countdown > 0;
        *countdown = 0;
        assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        assert_true(provider_processes_end(getpid()));
        assert_int_equal(open_descriptors(), before);
        if (status != FACET_OK) {
            assert_int_equal(error.status, status);
            assert_string_not_equal(error.message, "");
            assert_null(table);
        } else {
            assert_int_not_equal(is_incomplete(table, complete), no_call_failed);
            facet_device_table_close(table);
        }
        if (no_call_failed)
            return n - 1;
    }
    fail_msg("opening a table makes 199 calls or more, expected fewer");
    return 0;
}

static void a_failed_call_while_opening_is_visible(void **state)
{
    const struct expectation complete = {.loaded = 1, .known = 2};
    char paths[2048];

    snprintf(paths, sizeof paths, "%s:%s", fixture("good"), fixture("refuses"));
    /* The least number of calls: 3 for the table, the records and the copy of the path; 7 for each of the two providers
     * (session, path, two sockets, stack, the supervisor and the provider's process); 5 for the channel, the requests,
     * the answers of the lists and the room for them; 1 for the devices. Short answers take no memory. */
    assert_true(open_until_success(paths, &complete) >= 3 + 2 * 7 + 5 + 1);
}

static void a_failed_call_while_searching_a_folder_is_visible(void **state)
{
    const struct expectation complete = {0};
    char folder[] = "/tmp/facet-test-faults-XXXXXX";

    assert_non_null(mkdtemp(folder));
    /* 3 for the table, the records and the copy of the path; 1 for the folder; 1 for the devices */
    assert_int_equal(open_until_success(folder, &complete), 3 + 1 + 1);
    assert_int_equal(rmdir(folder), 0);
}

static int share_countdown(void **state)
{
    countdown = __real_mmap64(NULL, sizeof *countdown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return countdown == MAP_FAILED;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_call_while_opening_is_visible),
        cmocka_unit_test(a_failed_call_while_searching_a_folder_is_visible),
    };

    return cmocka_run_group_tests(tests, share_countdown, NULL);
}
