/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of cuGetProcAddress through Facet's library, "ours": each request that the CUDA runtime makes when it
 * starts, and other requests, for which the driver has rules.
 * Never: calls the lookup in the test's own process.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "interpose/cuda/hooks.h"
#include "interpose/kit/forward.h"

typedef __typeof__(cuGetProcAddress) *old_lookup;
typedef __typeof__(cuGetProcAddress_v2) *new_lookup;

struct driver {
    void *library;
    old_lookup old;
    new_lookup new;
};
static struct driver ours, vendors;

/* What a lookup returned. */
struct answer {
    CUresult result;
    CUdriverProcAddressQueryResult status;
    void *function;
};

static struct driver open_driver(const char *path)
{
    struct driver driver = {.library = dlopen(path, RTLD_NOW)};

    if (!driver.library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    driver.old = (old_lookup)dlsym(driver.library, "cuGetProcAddress");
    driver.new = (new_lookup)dlsym(driver.library, "cuGetProcAddress_v2");
    return driver;
}

static void open_drivers(void)
{
    char path[4096];

    ours = open_driver("libcuda.so.1");
    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv(FIXTURE_FAKE));
    vendors = open_driver(path);
}

static struct answer ask_driver(const struct driver *driver, bool old, const char *name, int version, uint64_t flags)
{
    struct answer answer = {.status = -1};

    answer.result = old ? driver->old(name, &answer.function, version, flags)
                        : driver->new (name, &answer.function, version, flags, &answer.status);
    return answer;
}

static bool is_hooked(const char *symbol)
{
    static const char *const hooked[] = {
#define SYMBOL(exported, ...) #exported,
        FACET_CUDA_HOOKS(SYMBOL)
#undef SYMBOL
    };

    for (size_t i = 0; i < sizeof hooked / sizeof *hooked; i++)
        if (strcmp(hooked[i], symbol) == 0)
            return true;
    return false;
}

static bool lies_in(const void *address, const struct driver *driver)
{
    Dl_info one, other;

    return dladdr(address, &one) && dladdr((void *)driver->new, &other) && one.dli_fbase == other.dli_fbase;
}

/* The exported symbol of the function that the vendor's library found: it names the form of the function. */
static const char *symbol_of(const struct answer *answer)
{
    Dl_info info;

    return dladdr(answer->function, &info) && info.dli_saddr == answer->function ? info.dli_sname : "?";
}

/* Whether our answer equals the vendor's, or is in a vGPU the hook of exactly that form. */
static bool is_right(const struct answer *own, const struct answer *theirs, bool tenant)
{
    if (own->result != theirs->result || own->status != theirs->status)
        return false;
    if (!theirs->function || !tenant || !is_hooked(symbol_of(theirs)))
        return own->function == theirs->function;
    return own->function != theirs->function && lies_in(own->function, &ours);
}

/* The runtime asks for existing functions: the symbol that is found has the name and the stream of the request. */
static bool is_exact(const struct answer *theirs, const char *name, uint64_t flags)
{
    const char *symbol = symbol_of(theirs);
    bool per_thread = strstr(symbol, "_ptsz") || strstr(symbol, "_ptds");

    return strncmp(symbol, name, strlen(name)) == 0 && (!symbol[strlen(name)] || symbol[strlen(name)] == '_') &&
           per_thread == (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

/* Reads "name version flags" from a row of the file. One row of the runtime requests an empty name, which no driver
 * has. */
static bool parse_request(const char *line, char name[128], int *version, uint64_t *flags)
{
    unsigned long read_flags;

    name[0] = 0;
    if (line[0] == '#' || (line[0] == ' ' ? sscanf(line, "%d %lu", version, &read_flags) != 2
                                          : sscanf(line, "%127s %d %lu", name, version, &read_flags) != 3))
        return false;
    *flags = read_flags;
    return true;
}

/* Prints the requests that got a wrong answer, then the number of rows, and whether hooks were found. */
static int role_rows(const char *options)
{
    FILE *file = fopen(getenv("FACET_TEST_CUDA_ROWS"), "r");
    bool tenant = getenv("FACET_VGPU_DIR"), old = strcmp(options, "old") == 0;
    unsigned rows = 0, hooked = 0;
    char line[256], name[128];
    uint64_t flags;
    int version;

    open_drivers();
    while (file && fgets(line, sizeof line, file)) {
        if (!parse_request(line, name, &version, &flags))
            continue;
        struct answer theirs = ask_driver(&vendors, old, name, version, flags);
        struct answer own = ask_driver(&ours, old, name, version, flags);
        rows++;
        hooked += own.function != theirs.function;
        if (!is_right(&own, &theirs, tenant) || (name[0] && !is_exact(&theirs, name, flags)))
            printf("wrong answer to '%s', for which the driver finds %s\n", line, symbol_of(&theirs));
    }
    if (file)
        fclose(file);
    printf("%u rows, %s", rows, tenant ? hooked ? "hooked" : "none hooked" : hooked ? "changed" : "unchanged");
    return 0;
}

/* Requests near the limits of a function's versions, with unknown names or with unusual flags. Their answers equal the
 * driver's, or are the hook of the form that the driver finds. */
static int role_rules(const char *unused)
{
    static const struct {
        const char *name;
        int version;
        uint64_t flags;
    } requests[] = {
        {"cuInit", 1999, 0},
        {"cuInit", 13000, 0},
        {"cuInit", 99000, 0},
        {"cuNothing", 13000, 0},
        {"cuInit", 2000, 3},
        {"cuGetProcAddress", 11999, 0},
        {"cuGetProcAddress", 12030, 0},
        {"cuMemAlloc", 3010, 0},
        {"cuMemAlloc", 13000, 2},
        {"cuMemcpyHtoD", 3020, 2},
        {"cuMemcpyHtoD", 6000, 2},
        {"cuMemcpyHtoD", 13000, 1},
        {"cuLaunchKernel", 3999, 0},
        {"cuMemPrefetchAsync", 12010, 2},
    };

    open_drivers();
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        for (int old = 0; old < 2; old++) {
            struct answer theirs = ask_driver(&vendors, old, requests[i].name, requests[i].version, requests[i].flags);
            struct answer own = ask_driver(&ours, old, requests[i].name, requests[i].version, requests[i].flags);
            if (!is_right(&own, &theirs, true))
                printf("wrong answer to %s, version %d: result %d\n", requests[i].name, requests[i].version,
                       own.result);
        }
    printf("status is optional: %d", ours.new("cuInit", &(void *){NULL}, 2000, 0, NULL));
    return 0;
}

/* Prints whether the looked-up cuInit is ours, and whether the lookup was counted as one of an unknown form. */
static int role_init(const char *version)
{
    open_drivers();
    struct answer own = ask_driver(&ours, false, "cuInit", atoi(version), 0);
    const struct facet_interposer *interposer = dlsym(ours.library, "facet_interposer");

    if (!own.function || !interposer)
        return 1;
    printf("%s, unknown %d", lies_in(own.function, &ours) ? "ours" : "the driver's",
           (int)atomic_load(&interposer->unknown_forms));
    return 0;
}

static int play_role(const char *role, const char *argument)
{
    if (strcmp(role, "rows") == 0)
        return role_rows(argument);
    if (strcmp(role, "rules") == 0)
        return role_rules(argument);
    return role_init(argument);
}

static void test_the_runtimes_requests_find_hooks_in_a_vgpu(void **state)
{
    fixture_enter("0");
    assert_string_equal(fixture_run(NULL, "rows", "new"), "440 rows, hooked"); /* all rows of the file */
    assert_string_equal(fixture_run(NULL, "rows", "old"), "440 rows, hooked");
}

static void test_the_runtimes_requests_are_unchanged_outside_a_vgpu(void **state)
{
    assert_string_equal(fixture_run(NULL, "rows", "new"), "440 rows, unchanged");
    assert_string_equal(fixture_run(NULL, "rows", "old"), "440 rows, unchanged");
}

static void test_lookup_rules_of_the_driver_hold(void **state)
{
    fixture_enter("0");
    assert_string_equal(fixture_run(NULL, "rules", ""), "status is optional: 0");
}

static void test_a_function_that_is_not_exported_is_hooked_by_its_name(void **state)
{
    fixture_enter("0");
    setenv("FAKE_CUDA_HIDDEN", "1", 1);
    assert_string_equal(fixture_run(NULL, "init", "2000"), "ours, unknown 0");
    assert_string_equal(fixture_run(NULL, "init", "13000"), "ours, unknown 0");
}

static void test_a_form_newer_than_our_list_is_passed_through_and_counted(void **state)
{
    fixture_enter("0");
    setenv("FAKE_CUDA_NEWER", "1", 1);
    setenv("FAKE_CUDA_VERSION", "90000", 1);
    assert_string_equal(fixture_run(NULL, "init", "13000"), "ours, unknown 0");
    assert_string_equal(fixture_run(NULL, "init", "90000"), "the driver's, unknown 1");
}

int main(int count, char **arguments)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_runtimes_requests_find_hooks_in_a_vgpu),
        TEST(test_the_runtimes_requests_are_unchanged_outside_a_vgpu),
        TEST(test_lookup_rules_of_the_driver_hold),
        TEST(test_a_function_that_is_not_exported_is_hooked_by_its_name),
        TEST(test_a_form_newer_than_our_list_is_passed_through_and_counted),
    };

    if (count > 2)
        return play_role(arguments[1], arguments[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
