/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about workload configurations: setting and merging them, and the content of each rendered form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include <facet/workload.h>

#include "failing.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum facet_status try_status = (call);                                                                         \
        if (try_status != FACET_OK)                                                                                    \
            return try_status;                                                                                         \
    } while (0)

/* Sets everything that a configuration can hold. */
static enum facet_status fill_workload(struct facet_workload *w, struct facet_error *error)
{
    const char *const options[] = {"rprivate"};
    const struct facet_workload_mount mount = {.size = sizeof mount,
                                               .writable = 1,
                                               .type = "bind",
                                               .source = "/data",
                                               .target = "/data",
                                               .options = options,
                                               .option_count = 1};
    const struct facet_workload_mount tmpfs = {.size = sizeof tmpfs, .type = "tmpfs", .target = "/scratch"};

    TRY(facet_workload_add_mount(w, &mount, error));
    TRY(facet_workload_add_mount(w, &tmpfs, error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_ENVIRONMENT, "A", "1=2\n3", error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_ENVIRONMENT, "LD_PRELOAD", "/own.so", error));
    TRY(facet_workload_add_device_node(w, "/dev/kfd", NULL, "rw", error));
    TRY(facet_workload_set_device_numbers(w, "/dev/kfd", 'c', 240, 0, error));
    TRY(facet_workload_add_cgroup_rule(w, 'c', 195, FACET_WORKLOAD_ANY, "rwm", error));
    TRY(facet_workload_add(w, FACET_WORKLOAD_CDI_DEVICES, "nvidia.com/gpu=GPU-5a:1", error));
    TRY(facet_workload_add(w, FACET_WORKLOAD_NETWORKS, "rdma0", error));
    TRY(facet_workload_add_group_id(w, 44, error));
    TRY(facet_workload_add(w, FACET_WORKLOAD_GROUP_NAMES, "render", error));
    TRY(facet_workload_add(w, FACET_WORKLOAD_CAPABILITIES, "CAP_IPC_LOCK", error));
    TRY(facet_workload_set_ulimit(w, "memlock", -1, -1, error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_SYSCTLS, "net.ipv6.conf.all.disable_ipv6", "0", error));
    TRY(facet_workload_add(w, FACET_WORKLOAD_SYSTEM_CALLS, "mbind", error));
    TRY(facet_workload_set_seccomp(w, "profile", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[]}", error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_IPC_MODE, NULL, "host", error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_RUNTIME, NULL, "nvidia", error));
    TRY(facet_workload_set_hugepages(w, "1GB", UINT64_C(1) << 30, error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_CPUSET, NULL, "0-3,8", error));
    TRY(facet_workload_set(w, FACET_WORKLOAD_MEMORY_NODES, NULL, "0", error));
    TRY(facet_workload_set_memory(w, UINT64_C(1) << 30, -1, error));
    TRY(facet_workload_add_hook(w, "/host/libhook.so", "/opt/libhook.so", error));
    return facet_workload_set(w, FACET_WORKLOAD_RESOURCE_DATA, "CUDA_GLOBAL_DEVICE_IDS", "0:3", error);
}

static struct facet_workload *make_workload(void)
{
    struct facet_workload *workload;
    struct facet_error error = {0};

    assert_int_equal(facet_workload_create(&workload, &error), FACET_OK);
    if (fill_workload(workload, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return workload;
}

#define CONFIGURATION(members) "{\"format\":\"facet-accelerator-workload\",\"version\":\"1.0\"," members "}"

static void assert_json(const char *got, const char *expected)
{
    json_t *a = json_loads(got, 0, NULL), *b = json_loads(expected, 0, NULL);

    assert_non_null(b);
    if (!json_equal(a, b))
        fail_msg("got %s, expected %s", got, expected);
    json_decref(a);
    json_decref(b);
}

static void test_workload_round_trips(void **state)
{
    struct facet_workload *workload = make_workload(), *parsed;
    struct facet_error error = {0};
    char *text, *second;

    assert_int_equal(facet_workload_write(workload, &text, &error), FACET_OK);
    assert_int_equal(facet_workload_read(text, strlen(text), &parsed, &error), FACET_OK);
    assert_int_equal(facet_workload_write(parsed, &second, &error), FACET_OK);
    assert_string_equal(text, second);
    free(text);
    free(second);
    facet_workload_destroy(workload);
    facet_workload_destroy(parsed);
}

static void test_docker_form_is_rendered(void **state)
{
    struct facet_workload *workload = make_workload();
    struct facet_violations *left = NULL;
    struct facet_violation item = {.size = sizeof item};
    struct facet_error error = {0};
    char *text = NULL;

    assert_int_equal(facet_workload_render(workload, FACET_RENDER_DOCKER, NULL, &text, NULL, &error),
                     FACET_UNSUPPORTED);
    assert_null(text);
    assert_string_equal(error.argument, "hugepages");
    assert_int_equal(facet_workload_render(workload, FACET_RENDER_DOCKER, NULL, &text, &left, &error), FACET_OK);
    assert_int_equal(facet_violations_total(left), 1); /* the setting that Docker has no form for */
    facet_violations_get(left, 0, &item, NULL);
    assert_string_equal(item.pointer, "/hugepages");
    assert_json(
        text,
        "{\"Env\":[\"A=1=2\\n3\",\"LD_PRELOAD=/own.so:/opt/libhook.so\"],\"HostConfig\":{\"Mounts\":["
        "{\"Type\":\"bind\",\"Source\":\"/data\",\"Target\":\"/data\",\"ReadOnly\":false,\"BindOptions\":"
        "{\"Propagation\":\"rprivate\"}},{\"Type\":\"tmpfs\",\"Target\":\"/scratch\",\"ReadOnly\":true},"
        "{\"Type\":\"bind\",\"Source\":\"/host/libhook.so\",\"Target\":\"/opt/libhook.so\",\"ReadOnly\":true}],"
        "\"Devices\":[{\"PathOnHost\":\"/dev/kfd\",\"PathInContainer\":\"/dev/kfd\",\"CgroupPermissions\":\"rw\"}],"
        "\"DeviceCgroupRules\":[\"c 195:* rwm\"],\"DeviceRequests\":[{\"Driver\":\"cdi\",\"DeviceIDs\":"
        "[\"nvidia.com/gpu=GPU-5a:1\"]}],\"GroupAdd\":[\"44\",\"render\"],\"CapAdd\":[\"CAP_IPC_LOCK\"],"
        "\"Ulimits\":[{\"Name\":\"memlock\",\"Soft\":-1,\"Hard\":-1}],\"Sysctls\":"
        "{\"net.ipv6.conf.all.disable_ipv6\":\"0\"},\"SecurityOpt\":[\"seccomp={\\\"defaultAction\\\":"
        "\\\"SCMP_ACT_ERRNO\\\",\\\"syscalls\\\":[{\\\"names\\\":[\\\"mbind\\\"],\\\"action\\\":\\\"SCMP_ACT_ALLOW\\\"}"
        "]}\"],"
        "\"IpcMode\":\"host\",\"Runtime\":\"nvidia\",\"CpusetCpus\":\"0-3,8\",\"CpusetMems\":\"0\",\"Memory\":"
        "1073741824,"
        "\"MemorySwap\":-1},\"NetworkingConfig\":{\"EndpointsConfig\":{\"rdma0\":{}}}}");
    free(text);
    facet_violations_destroy(left);
    facet_workload_destroy(workload);
}

static void test_oci_form_is_rendered(void **state)
{
    struct facet_workload *workload = make_workload();
    struct facet_violations *left = NULL;
    struct facet_error error = {0};
    char *text = NULL;

    assert_int_equal(facet_workload_render(workload, FACET_RENDER_OCI, NULL, &text, &left, &error), FACET_OK);
    assert_int_equal(facet_violations_total(left), 5); /* cdi_devices, networks, group_names, runtime, ipc_mode */
    assert_non_null(strstr(text, "\"hard\": 18446744073709551615\n"));
    char *number;
    while ((number = strstr(text, "18446744073709551615"))) /* too large for the test's own reader */
        memcpy(number, "7                   ", 20);
    assert_json(
        text,
        "{\"process\":{\"env\":[\"A=1=2\\n3\",\"LD_PRELOAD=/own.so:/opt/"
        "libhook.so\"],\"user\":{\"additionalGids\":[44]},"
        "\"capabilities\":{\"bounding\":[\"CAP_IPC_LOCK\"],\"effective\":[\"CAP_IPC_LOCK\"],\"permitted\":"
        "[\"CAP_IPC_LOCK\"]},\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"soft\":7,\"hard\":7}]},\"mounts\":["
        "{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"/"
        "data\",\"options\":[\"rbind\",\"rw\",\"rprivate\"]},"
        "{\"destination\":\"/scratch\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"ro\"]},"
        "{\"destination\":\"/opt/libhook.so\",\"type\":\"bind\",\"source\":\"/host/libhook.so\",\"options\":"
        "[\"rbind\",\"ro\"]}],\"linux\":{\"devices\":[{\"path\":\"/dev/"
        "kfd\",\"type\":\"c\",\"major\":240,\"minor\":0}],"
        "\"resources\":{\"devices\":[{\"allow\":true,\"type\":\"c\",\"major\":240,\"minor\":0,\"access\":\"rw\"},"
        "{\"allow\":true,\"type\":\"c\",\"major\":195,\"access\":\"rwm\"}],\"cpu\":{\"cpus\":\"0-3,8\",\"mems\":\"0\"},"
        "\"memory\":{\"limit\":1073741824,\"swap\":-1},\"hugepageLimits\":[{\"pageSize\":\"1GB\",\"limit\":1073741824}]"
        "},"
        "\"sysctl\":{\"net.ipv6.conf.all.disable_ipv6\":\"0\"},\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ERRNO\","
        "\"syscalls\":[{\"names\":[\"mbind\"],\"action\":\"SCMP_ACT_ALLOW\"}]}}}");
    free(text);
    facet_violations_destroy(left);
    facet_workload_destroy(workload);
}

static void test_cdi_form_is_rendered(void **state)
{
    struct facet_workload *workload = make_workload();
    struct facet_render_options options = {
        .size = sizeof options, .cdi_kind = "facet.dev/gpu", .cdi_device = "vgpu-1:a"};
    static const struct {
        const char *kind, *device;
    } wrong[] = {{"facet.dev", "0"}, {"facet.dev/gpu", ""}, {"facet.dev/gpu", "a="}, {"1/gpu", "0"}, {"a/b/c", "0"},
                 {"a/b", "-0"},      {"a/b", "0-"},         {"a-/b", "0"},           {"a/b.", "0"}};
    struct facet_violations *left = NULL;
    struct facet_error error = {0};
    char *text = NULL;

    assert_int_equal(facet_workload_render(workload, FACET_RENDER_CDI, &options, &text, &left, &error), FACET_OK);
    assert_int_equal(facet_violations_total(left), 16); /* settings that CDI has no form for */
    assert_json(text,
                "{\"cdiVersion\":\"0.7.0\",\"kind\":\"facet.dev/gpu\",\"devices\":[{\"name\":\"vgpu-1:a\","
                "\"containerEdits\":{\"env\":[\"A=1=2\\n3\",\"LD_PRELOAD=/own.so:/opt/libhook.so\"],\"deviceNodes\":["
                "{\"path\":\"/dev/kfd\",\"hostPath\":\"/dev/kfd\",\"type\":\"c\",\"major\":240,\"minor\":0,"
                "\"permissions\":\"rw\"}],\"mounts\":[{\"hostPath\":\"/data\",\"containerPath\":\"/data\",\"options\":"
                "[\"nosuid\",\"nodev\",\"rbind\",\"rw\",\"rprivate\"]},{\"hostPath\":\"tmpfs\",\"containerPath\":"
                "\"/scratch\",\"type\":\"tmpfs\",\"options\":[\"ro\"]},{\"hostPath\":\"/host/libhook.so\","
                "\"containerPath\":\"/opt/libhook.so\",\"options\":[\"nosuid\",\"nodev\",\"rbind\",\"ro\"]}],"
                "\"additionalGids\":[44]}}]}");
    free(text);
    text = NULL;
    facet_violations_destroy(left);
    left = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.cdi_kind = wrong[i].kind;
        options.cdi_device = wrong[i].device;
        assert_int_equal(facet_workload_render(workload, FACET_RENDER_CDI, &options, &text, &left, &error),
                         FACET_INVALID_ARGUMENT);
    }
    assert_true(!text && !left);
    facet_workload_destroy(workload);
}

/* A reader refuses a document of a version that it does not know. */
static void test_cdi_has_the_least_version_that_has_all_that_is_used(void **state)
{
    static const struct {
        const char *members, *kind, *device, *version;
    } cases[] = {
        {"\"environment\":{\"A\":\"1\"}", "facet.dev/gpu", "a", "0.3.0"},
        {"\"mounts\":[{\"type\":\"bind\",\"source\":\"/t\",\"target\":\"/t\",\"permission\":\"rw\"}]", "facet.dev/gpu",
         "a", "0.3.0"},
        {"\"mounts\":[{\"type\":\"tmpfs\",\"target\":\"/t\",\"permission\":\"rw\"}]", "facet.dev/gpu", "a", "0.4.0"},
        {"\"device_nodes\":[{\"path\":\"/dev/a\"}]", "facet.dev/gpu", "a", "0.3.0"},
        {"\"device_nodes\":[{\"path\":\"/dev/a\",\"host_path\":\"/dev/a\"}]", "facet.dev/gpu", "a", "0.5.0"},
        {"\"environment\":{\"A\":\"1\"}", "facet.dev/gpu", "0", "0.5.0"},
        {"\"environment\":{\"A\":\"1\"}", "facet.dev/gpu.half", "a", "0.6.0"},
        {"\"group_ids\":[44]", "facet.dev/gpu", "a", "0.7.0"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct facet_render_options options = {
            .size = sizeof options, .cdi_kind = cases[i].kind, .cdi_device = cases[i].device};
        char configuration[512], expected[64];
        struct facet_workload *workload;
        struct facet_error error;
        char *text;

        snprintf(configuration, sizeof configuration, CONFIGURATION("%s"), cases[i].members);
        snprintf(expected, sizeof expected, "\"cdiVersion\": \"%s\"", cases[i].version);
        assert_int_equal(facet_workload_read(configuration, strlen(configuration), &workload, &error), FACET_OK);
        assert_int_equal(facet_workload_render(workload, FACET_RENDER_CDI, &options, &text, NULL, &error), FACET_OK);
        if (!strstr(text, expected))
            fail_msg("case %zu: expected %s in %s", i, expected, text);
        free(text);
        facet_workload_destroy(workload);
    }
}

static void test_plain_form_is_rendered(void **state)
{
    struct facet_workload *workload;
    struct facet_error error = {0};
    char *text;

    assert_int_equal(facet_workload_create(&workload, &error), FACET_OK);
    facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, "B", "2", NULL);
    facet_workload_add_hook(workload, "/a.so", "/in/a.so", NULL);
    facet_workload_add_hook(workload, "/b.so", NULL, NULL);
    facet_workload_add_device_node(workload, "/dev/kfd", NULL, NULL, NULL);
    assert_int_equal(facet_workload_render(workload, FACET_RENDER_ENVIRONMENT, NULL, &text, NULL, &error), FACET_OK);
    assert_json(text, "{\"env\":[\"B=2\",\"LD_PRELOAD=/a.so:/b.so\"]}");
    free(text);
    facet_workload_add(workload, FACET_WORKLOAD_SYSTEM_CALLS, "mbind", NULL);
    assert_int_equal(facet_workload_render(workload, FACET_RENDER_DOCKER, NULL, &text, NULL, &error),
                     FACET_UNSUPPORTED);
    assert_string_equal(error.argument, "system_calls");
    const struct facet_render_options options = {.size = sizeof options,
                                                 .seccomp_profile = "{\"defaultAction\":\"X\"}"};
    assert_int_equal(facet_workload_render(workload, FACET_RENDER_DOCKER, &options, &text, NULL, &error), FACET_OK);
    assert_non_null(strstr(text, "mbind"));
    free(text);
    facet_workload_destroy(workload);
}

static void test_a_merged_workload_has_the_settings_of_both(void **state)
{
    struct facet_workload *a, *b;
    const struct facet_workload_mount first = {.size = sizeof first, .type = "bind", .source = "/a", .target = "/t"};
    const struct facet_workload_mount second = {.size = sizeof second, .type = "bind", .source = "/b", .target = "/t"};
    struct facet_error error = {0};
    char *before, *after;

    facet_workload_create(&a, NULL);
    facet_workload_create(&b, NULL);
    facet_workload_add(a, FACET_WORKLOAD_GROUP_NAMES, "video", NULL);
    facet_workload_add(b, FACET_WORKLOAD_GROUP_NAMES, "video", NULL);
    facet_workload_add(b, FACET_WORKLOAD_GROUP_NAMES, "render", NULL);
    facet_workload_set(a, FACET_WORKLOAD_ENVIRONMENT, "SAME", "1", NULL);
    facet_workload_set(b, FACET_WORKLOAD_ENVIRONMENT, "SAME", "1", NULL);
    facet_workload_set(b, FACET_WORKLOAD_ENVIRONMENT, "OTHER", "2", NULL);
    facet_workload_add_mount(a, &first, NULL);
    facet_workload_add_mount(b, &first, NULL);
    assert_int_equal(facet_workload_merge(a, "x", b, "y", &error), FACET_OK);
    assert_int_equal(facet_workload_write(a, &before, NULL), FACET_OK);
    assert_json(before, "{\"format\":\"facet-accelerator-workload\",\"version\":\"1.0\",\"group_names\":[\"video\","
                        "\"render\"],\"environment\":{\"SAME\":\"1\",\"OTHER\":\"2\"},\"mounts\":[{\"type\":\"bind\","
                        "\"source\":\"/a\",\"target\":\"/t\",\"permission\":\"ro\"}]}");
    facet_workload_destroy(b);
    facet_workload_create(&b, NULL);
    facet_workload_add(b, FACET_WORKLOAD_NETWORKS, "n", NULL);
    facet_workload_add_mount(b, &second, NULL);
    assert_int_equal(facet_workload_merge(a, "cuda", b, "rocm", &error), FACET_ALREADY_EXISTS);
    assert_non_null(strstr(error.message, "/mounts/0/source: 'cuda' and 'rocm'"));
    assert_int_equal(facet_workload_write(a, &after, NULL), FACET_OK);
    assert_string_equal(before, after);
    free(before);
    free(after);
    facet_workload_destroy(a);
    facet_workload_destroy(b);
}

/* A mount from one configuration, and a hook with the same target from the other, are valid alone, but not together. */
static void test_impossible_merge_is_refused(void **state)
{
    static const char swap[] =
        "{\"format\":\"facet-accelerator-workload\",\"version\":\"1.0\",\"memory_limit_bytes\":4,"
        "\"memory_swap_limit_bytes\":8}";
    const struct facet_workload_mount mount = {.size = sizeof mount, .type = "tmpfs", .target = "/in.so"};
    struct facet_workload *a, *b, *c;
    struct facet_error error = {0};
    char *before, *after;

    assert_int_equal(facet_workload_create(&a, NULL), FACET_OK);
    assert_int_equal(facet_workload_create(&b, NULL), FACET_OK);
    assert_int_equal(facet_workload_read(swap, strlen(swap), &c, &error), FACET_OK);
    assert_int_equal(facet_workload_add_mount(a, &mount, NULL), FACET_OK);
    assert_int_equal(facet_workload_add_hook(b, "/a.so", "/in.so", NULL), FACET_OK);
    assert_int_equal(facet_workload_write(a, &before, NULL), FACET_OK);
    assert_int_equal(facet_workload_merge(a, "x", b, "y", &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "/hooks/0/target"));
    assert_int_equal(facet_workload_write(a, &after, NULL), FACET_OK);
    assert_string_equal(before, after);
    assert_int_equal(facet_workload_merge(a, "x", c, "z", &error), FACET_OK);
    assert_int_equal(facet_workload_merge(a, "x", a, "x", &error), FACET_OK);
    free(before);
    free(after);
    facet_workload_destroy(a);
    facet_workload_destroy(b);
    facet_workload_destroy(c);
}

static void test_wrong_settings_are_refused(void **state)
{
    struct facet_workload *w = make_workload();
    const struct facet_workload_mount relative = {
        .size = sizeof relative, .type = "bind", .source = "a", .target = "/t"};
    const struct facet_workload_mount latin = {.size = sizeof latin, .type = "bind", .source = "/\xff", .target = "/t"};
    struct facet_error error = {0};
    char *before, *after;

    facet_workload_write(w, &before, NULL);
    assert_int_equal(facet_workload_add(w, FACET_WORKLOAD_CDI_DEVICES, "gpu0", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add(w, FACET_WORKLOAD_CAPABILITIES, "IPC_LOCK", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set(w, FACET_WORKLOAD_ENVIRONMENT, "A=B", "1", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set(w, FACET_WORKLOAD_IPC_MODE, NULL, "Host", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set(w, FACET_WORKLOAD_CPUSET, NULL, "0-", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_ulimit(w, "nofile", 10, 5, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_ulimit(w, "nofile", -1, 5, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_seccomp(w, "profile", NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_seccomp(w, "default", "{}", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add_mount(w, &relative, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add_mount(w, &latin, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "UTF-8"));
    assert_int_equal(facet_workload_add_device_node(w, "dev/x", NULL, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add_device_node(w, "/dev/x", NULL, "x", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add_cgroup_rule(w, 'd', 1, 1, "r", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_memory(w, 0, 0, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_workload_set_memory(w, 1, -2, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_add(w, 99, "x", &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set(w, 99, NULL, "x", &error), FACET_INVALID_ARGUMENT);
    facet_workload_write(w, &after, NULL);
    assert_string_equal(before, after);
    free(before);
    free(after);
    facet_workload_destroy(w);
}

/* A setting that a container engine would misunderstand or refuse is refused here. */
static void test_ambiguous_settings_are_refused(void **state)
{
    static const struct {
        const char *text, *fragment;
    } wrong[] = {
        {CONFIGURATION("\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"permission\":\"ro\","
                       "\"options\":[\"noexec\",\"rw\"]}]"),
         "/mounts/0/options/1"},
        {CONFIGURATION("\"hooks\":[{\"source\":\"/a.so\",\"target\":\"/in/a.so:/tmp/b.so\"}]"), "/hooks/0/target"},
        {CONFIGURATION("\"hooks\":[{\"source\":\"/a.so\",\"target\":\"/in/a b.so\"}]"), "/hooks/0/target"},
        {CONFIGURATION("\"mounts\":[{\"type\":\"tmpfs\",\"target\":\"/b\",\"permission\":\"rw\"}],"
                       "\"hooks\":[{\"source\":\"/a.so\",\"target\":\"/b\"}]"),
         "/hooks/0/target"},
        {CONFIGURATION("\"memory_limit_bytes\":2,\"memory_swap_limit_bytes\":1"), "/memory_swap_limit_bytes"},
        {CONFIGURATION("\"memory_swap_limit_bytes\":1"), "/memory_swap_limit_bytes"},
        {CONFIGURATION("\"ulimits\":{\"files\":{\"soft\":1,\"hard\":1}}"), "/ulimits/files"},
        {CONFIGURATION("\"seccomp\":{\"mode\":\"profile\",\"profile\":{}}"), "/seccomp/profile"},
    };
    struct facet_workload *w = NULL;
    struct facet_error error = {0};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(facet_workload_read(wrong[i].text, strlen(wrong[i].text), &w, &error), FACET_INVALID_ARGUMENT);
        if (!strstr(error.message, wrong[i].fragment))
            fail_msg("'%s': '%s' does not contain '%s'", wrong[i].text, error.message, wrong[i].fragment);
    }
    assert_int_equal(facet_workload_create(&w, NULL), FACET_OK);
    assert_int_equal(facet_workload_add(w, FACET_WORKLOAD_CDI_DEVICES, "vendor.com/gpu.v2=0", &error), FACET_OK);
    assert_int_equal(facet_workload_set_memory(w, 4, 8, &error), FACET_OK);
    assert_int_equal(facet_workload_set_memory(w, 4, 3, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_workload_set_memory(NULL, 4, 8, &error), FACET_INVALID_ARGUMENT);
    /* Setting memory without swap removes the swap. */
    assert_int_equal(facet_workload_set_memory(w, 16, 0, &error), FACET_OK);
    char *text;
    assert_int_equal(facet_workload_write(w, &text, &error), FACET_OK);
    assert_null(strstr(text, "swap"));
    free(text);
    facet_workload_destroy(w);
}

/* A setting that a form cannot express is named, also where the form would silently ignore it. */
static void test_settings_that_a_form_cannot_express_are_named(void **state)
{
    static const struct {
        const char *text;
        uint32_t form;
        const char *argument, *rendered;
    } cases[] = {
        {CONFIGURATION("\"no_new_privileges\":true,\"x-note\":1"), FACET_RENDER_DOCKER, "no_new_privileges", "{}"},
        {CONFIGURATION("\"device_nodes\":[{\"path\":\"/dev/a\",\"x-note\":1,\"file_mode\":384}]"), FACET_RENDER_CDI,
         "device_nodes",
         "{\"cdiVersion\":\"0.3.0\",\"kind\":\"facet.dev/workload\",\"devices\":[{\"name\":\"default\","
         "\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/a\"}]}}]}"},
        {CONFIGURATION("\"ulimits\":{\"as\":{\"soft\":1,\"hard\":1}}"), FACET_RENDER_DOCKER, "ulimits", "{}"},
        {CONFIGURATION("\"mounts\":[{\"type\":\"tmpfs\",\"target\":\"/t\",\"permission\":\"rw\",\"options\":["
                       "\"size=64m\",\"size=99999999999999999999\",\"size=-5\",\"size=8p\",\"size=1\"]}]"),
         FACET_RENDER_DOCKER, "mounts",
         "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"ReadOnly\":false,"
         "\"TmpfsOptions\":{\"SizeBytes\":67108864}}]}}"},
        {CONFIGURATION("\"mounts\":[{\"type\":\"bind\",\"source\":\"/t\",\"target\":\"/t\",\"permission\":\"rw\","
                       "\"options\":[\"rprivate\",\"shared\"]}]"),
         FACET_RENDER_DOCKER, "mounts",
         "{\"HostConfig\":{\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/t\",\"Target\":\"/t\",\"ReadOnly\":false,"
         "\"BindOptions\":{\"Propagation\":\"rprivate\"}}]}}"},
        {CONFIGURATION("\"hooks\":[{\"source\":\"/a:/tmp/b.so\",\"target\":\"/in.so\"}]"), FACET_RENDER_ENVIRONMENT,
         "hooks", "{\"env\":[]}"},
        {CONFIGURATION(
             "\"seccomp\":{\"mode\":\"profile\",\"profile\":{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":"
             "[{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_BPF\"]}}]}}"),
         FACET_RENDER_OCI, "seccomp", "{}"},
        {CONFIGURATION("\"group_ids\":[0,44]"), FACET_RENDER_CDI, "group_ids",
         "{\"cdiVersion\":\"0.7.0\",\"kind\":\"facet.dev/workload\",\"devices\":[{\"name\":\"default\","
         "\"containerEdits\":{\"additionalGids\":[44]}}]}"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_workload *w;
        struct facet_violations *left;
        struct facet_error error = {0};
        char *text = NULL;
        if (facet_workload_read(cases[i].text, strlen(cases[i].text), &w, &error) != FACET_OK)
            fail_msg("%s", error.message);
        assert_int_equal(facet_workload_render(w, cases[i].form, NULL, &text, NULL, &error), FACET_UNSUPPORTED);
        assert_string_equal(error.argument, cases[i].argument);
        assert_null(text);
        assert_int_equal(facet_workload_render(w, cases[i].form, NULL, &text, &left, &error), FACET_OK);
        assert_json(text, cases[i].rendered);
        free(text);
        facet_violations_destroy(left);
        facet_workload_destroy(w);
    }
}

/* CDI's library refuses a device without edits. So no text is rendered, and no setting is reported as left over. */
static void test_cdi_without_edits_is_refused(void **state)
{
    struct facet_workload *w;
    struct facet_violations *left = NULL;
    struct facet_error error = {0};
    char *text = NULL;

    assert_int_equal(facet_workload_create(&w, NULL), FACET_OK);
    assert_int_equal(facet_workload_render(w, FACET_RENDER_CDI, NULL, &text, NULL, &error), FACET_UNSUPPORTED);
    assert_int_equal(facet_workload_set(w, FACET_WORKLOAD_RUNTIME, NULL, "runc", NULL), FACET_OK);
    assert_int_equal(facet_workload_render(w, FACET_RENDER_CDI, NULL, &text, &left, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "there is none"));
    assert_true(!text && !left);
    facet_workload_destroy(w);
}

static bool render_all_forms(void *context)
{
    struct facet_workload *workload = NULL;
    struct facet_violations *left[4] = {0};
    char *texts[5] = {0};
    struct facet_error error = {0};
    bool done = facet_workload_create(&workload, &error) == FACET_OK && fill_workload(workload, &error) == FACET_OK &&
                facet_workload_write(workload, &texts[4], &error) == FACET_OK;

    for (uint32_t form = 0; done && form < 4; form++)
        done = facet_workload_render(workload, form, NULL, &texts[form], &left[form], &error) == FACET_OK;
    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    if (done)
        assert_int_equal(facet_violations_total(left[0]), 1);
    for (uint32_t form = 0; form < 5; form++)
        free(texts[form]);
    for (uint32_t form = 0; form < 4; form++)
        facet_violations_destroy(left[form]);
    facet_workload_destroy(workload);
    return done;
}

/* Renders one form, in which each allocation fails in turn: all forms together would take long. */
static bool render_one_form(void *context)
{
    struct facet_violations *left = NULL;
    char *text = NULL;
    struct facet_error error = {0};
    const struct {
        struct facet_workload *workload;
        uint32_t form;
        const char *expected;
    } *rendering = context;
    bool done = facet_workload_render(rendering->workload, rendering->form, NULL, &text, &left, &error) == FACET_OK;

    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    if (done)
        assert_string_equal(text, rendering->expected);
    free(text);
    facet_violations_destroy(left);
    return done;
}

/* The number of the first allocation whose size is not that of the other run: all allocations before it are those of
 * the half that is the same for each form, in which the configuration is judged. */
static uint64_t first_difference(const struct failing_call *other, uint64_t count)
{
    uint64_t same = 0;

    while (same < count && failing_trace[same].bytes == other[same].bytes)
        same++;
    return same + 1;
}

static void test_each_failing_allocation_leaves_nothing(void **state)
{
    struct {
        struct facet_workload *workload;
        uint32_t form;
        const char *expected;
    } rendering = {.workload = make_workload()};
    static struct failing_call docker[FAILING_CALLS_MOST];

    assert_true(render_all_forms(NULL));
    for (; facet_render_name(rendering.form); rendering.form++) {
        struct facet_violations *left;
        char *expected;
        assert_int_equal(facet_workload_render(rendering.workload, rendering.form, NULL, &expected, &left, NULL),
                         FACET_OK);
        rendering.expected = expected;
        uint64_t count = failing_record(render_one_form, &rendering);
        uint64_t first = rendering.form == FACET_RENDER_DOCKER ? 1 : first_difference(docker, count);
        if (rendering.form == FACET_RENDER_DOCKER)
            memcpy(docker, failing_trace, sizeof docker);
        uint64_t failed = failing_loop_from(first, count, render_one_form, &rendering);
        assert_true(failed > 50 && failed > first);
        free(expected);
        facet_violations_destroy(left);
    }
    facet_workload_destroy(rendering.workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workload_round_trips),
        cmocka_unit_test(test_docker_form_is_rendered),
        cmocka_unit_test(test_oci_form_is_rendered),
        cmocka_unit_test(test_cdi_form_is_rendered),
        cmocka_unit_test(test_plain_form_is_rendered),
        cmocka_unit_test(test_a_merged_workload_has_the_settings_of_both),
        cmocka_unit_test(test_impossible_merge_is_refused),
        cmocka_unit_test(test_wrong_settings_are_refused),
        cmocka_unit_test(test_ambiguous_settings_are_refused),
        cmocka_unit_test(test_settings_that_a_form_cannot_express_are_named),
        cmocka_unit_test(test_cdi_without_edits_is_refused),
        cmocka_unit_test(test_cdi_has_the_least_version_that_has_all_that_is_used),
        cmocka_unit_test(test_each_failing_allocation_leaves_nothing),
    };

    failing_begin();
    return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
