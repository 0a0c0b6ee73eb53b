/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `execution`. Never: launches a kernel that the provider did not publish. */
#include <inttypes.h>
#include <string.h>

#include "conformance/kernel.h"

enum { WORDS = 1024, UNKNOWN = 0x7fffffff };

/* Operations of this table take a context and no device, so the unknown argument is the context. */
static void refuse_unknown_context(struct facet_check *check)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_launch launch = {.size = sizeof launch, .grid = {1, 1, 1}, .group = {1, 1, 1}, .kernel = "none"};
    struct facet_stream_state state;
    uint64_t none;

    EXPECT_REFUSED(check, "execution.load: an unknown context is not found", FACET_NOT_FOUND, &none, sizeof none,
                   ops->load(instance, UNKNOWN, "image", 5, &none, &check->error));
    EXPECT_STATUS(check, "execution.unload: an unknown context is not found", FACET_NOT_FOUND,
                  ops->unload(instance, UNKNOWN, 1, NULL));
    EXPECT_REFUSED(check, "execution.create_stream: an unknown context is not found", FACET_NOT_FOUND, &none,
                   sizeof none, ops->create_stream(instance, UNKNOWN, &none, &check->error));
    EXPECT_STATUS(check, "execution.destroy_stream: an unknown context is not found", FACET_NOT_FOUND,
                  ops->destroy_stream(instance, UNKNOWN, 1, &check->error));
    EXPECT_STATUS(check, "execution.launch: an unknown context is not found", FACET_NOT_FOUND,
                  ops->launch(instance, UNKNOWN, 1, &launch, NULL, &check->error));
    EXPECT_STATUS(check, "execution.synchronize: an unknown context is not found", FACET_NOT_FOUND,
                  ops->synchronize(instance, UNKNOWN, 1, 0, &check->error));
    EXPECT_REFUSED(check, "execution.query: an unknown context is not found", FACET_NOT_FOUND, &state, sizeof state,
                   ops->query(instance, UNKNOWN, 1, &state, NULL));
    EXPECT_STATUS(check, "execution.cancel: an unknown context is not found", FACET_NOT_FOUND,
                  ops->cancel(instance, UNKNOWN, 1, &check->error));
}

static void refuse_unknown_stream(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_launch launch = {.size = sizeof launch, .grid = {1, 1, 1}, .group = {1, 1, 1}, .kernel = "none"};
    struct facet_stream_state state;

    EXPECT_STATUS(check, "execution.destroy_stream: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->destroy_stream(instance, context, UNKNOWN, &check->error));
    EXPECT_STATUS(check, "execution.launch: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->launch(instance, context, UNKNOWN, &launch, NULL, &check->error));
    EXPECT_STATUS(check, "execution.synchronize: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->synchronize(instance, context, UNKNOWN, 0, &check->error));
    EXPECT_REFUSED(check, "execution.query: an unknown stream is not found", FACET_NOT_FOUND, &state, sizeof state,
                   ops->query(instance, context, UNKNOWN, &state, &check->error));
    EXPECT_STATUS(check, "execution.cancel: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->cancel(instance, context, UNKNOWN, &check->error));
}

static void check_images(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    unsigned char garbage[4096];
    uint64_t module;

    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (unsigned char)(i * 31 + 17);
    EXPECT_REFUSED(check, "execution.load: garbage is corrupt", FACET_CORRUPT, &module, sizeof module,
                   ops->load(instance, context, garbage, sizeof garbage, &module, &check->error));
    EXPECT_REFUSED(check, "execution.load: a NULL image is an invalid argument", FACET_INVALID_ARGUMENT, &module,
                   sizeof module, ops->load(instance, context, NULL, 16, &module, &check->error));
    EXPECT_STATUS(check, "execution.load: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->load(instance, context, garbage, sizeof garbage, NULL, &check->error));
    EXPECT_STATUS(check, "execution.unload: an unknown module is not found", FACET_NOT_FOUND,
                  ops->unload(instance, context, UNKNOWN, &check->error));
}

static void refuse_others_stream(struct facet_check *check, uint64_t stream)
{
    struct facet_stream_state state;
    uint64_t other = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &other))
        return;
    EXPECT_REFUSED(check, "execution.query: another context's stream is not found", FACET_NOT_FOUND, &state,
                   sizeof state, check->execution_ops.query(check->instance, other, stream, &state, &check->error));
    EXPECT_STATUS(check, "execution.destroy_stream: another context's stream is not found", FACET_NOT_FOUND,
                  check->execution_ops.destroy_stream(check->instance, other, stream, &check->error));
    facet_check_drop_context(check, other);
}

static enum facet_status fill_state(struct facet_check *check, const void *subject, void *out)
{
    const struct facet_check_kernel *kernel = subject;

    return check->execution_ops.query(check->instance, kernel->context, kernel->stream, out, &check->error);
}

static void check_streams(struct facet_check *check)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_stream_state state = {.size = sizeof state};
    struct facet_launch launch = {.grid = {1, 1, 1}, .group = {1, 1, 1}, .kernel = "none"};
    struct facet_check_kernel target = {0};

    refuse_unknown_context(check);
    if (!facet_check_context(check, FACET_CHECK_WORKER, &target.context))
        return;
    refuse_unknown_stream(check, target.context);
    check_images(check, target.context);
    EXPECT_STATUS(check, "execution.create_stream: no place for the answer is an invalid argument",
                  FACET_INVALID_ARGUMENT, ops->create_stream(instance, target.context, NULL, &check->error));
    if (!EXPECT_OK(check, "execution.create_stream: in a context",
                   ops->create_stream(instance, target.context, &target.stream, &check->error)))
        return;
    facet_check_struct_rules(check, "execution.query", sizeof(struct facet_stream_state), fill_state, &target);
    EXPECT_OK(check, "execution.query: a new stream",
              ops->query(instance, target.context, target.stream, &state, NULL));
    EXPECT_TRUE(check, "execution.query: a new stream has done nothing",
                state.launched == 0 && state.completed == 0 && state.busy_ns == 0 && state.failed == 0 &&
                    state.begun == 0,
                "expected: 0 launched, begun and completed, 0 ns, status of failure 0\ngot: %" PRIu64
                " launched, %" PRIu64 " begun, %" PRIu64 " completed, %" PRIu64 " ns, status of failure %" PRIu32,
                state.launched, state.begun, state.completed, state.busy_ns, state.failed);
    EXPECT_OK(check, "execution.synchronize: an idle stream at once",
              ops->synchronize(instance, target.context, target.stream, 0, &check->error));
    EXPECT_OK(check, "execution.cancel: an idle stream",
              ops->cancel(instance, target.context, target.stream, &check->error));
    EXPECT_STATUS(check, "execution.launch: NULL for the launch is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->launch(instance, target.context, target.stream, NULL, NULL, &check->error));
    launch.size = 0;
    EXPECT_STATUS(check, "execution.launch: a struct of size 0 is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->launch(instance, target.context, target.stream, &launch, NULL, &check->error));
    refuse_others_stream(check, target.stream);
    EXPECT_OK(check, "execution.destroy_stream: a stream",
              ops->destroy_stream(instance, target.context, target.stream, &check->error));
    EXPECT_STATUS(check, "execution.destroy_stream: a second time is not found", FACET_NOT_FOUND,
                  ops->destroy_stream(instance, target.context, target.stream, &check->error));
    facet_check_drop_context(check, target.context);
}

static void refuse_wrong_launches(struct facet_check *check, const struct facet_check_kernel *kernel)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_launch launch = {
        .size = sizeof launch, .module = kernel->module, .grid = {1, 1, 1}, .group = {1, 1, 1}, .kernel = "no such"};
    static const char arguments[8192];

    EXPECT_STATUS(check, "execution.launch: an unknown kernel is not found", FACET_NOT_FOUND,
                  ops->launch(check->instance, kernel->context, kernel->stream, &launch, NULL, &check->error));
    memcpy(launch.kernel, kernel->name, sizeof launch.kernel);
    launch.module = UNKNOWN;
    EXPECT_STATUS(check, "execution.launch: an unknown module is not found", FACET_NOT_FOUND,
                  ops->launch(check->instance, kernel->context, kernel->stream, &launch, NULL, &check->error));
    launch.module = kernel->module;
    launch.argument_bytes = 5000;
    EXPECT_STATUS(check, "execution.launch: more than 4096 argument bytes are out of range", FACET_OUT_OF_RANGE,
                  ops->launch(check->instance, kernel->context, kernel->stream, &launch, arguments, &check->error));
    launch.argument_bytes = 24;
    launch.grid[1] = 0;
    EXPECT_STATUS(check, "execution.launch: a grid of 0 is out of range", FACET_OUT_OF_RANGE,
                  ops->launch(check->instance, kernel->context, kernel->stream, &launch, arguments, &check->error));
}

static void run_kernel(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_stream_state state = {.size = sizeof state};
    const uint64_t value = UINT64_C(0x0123456789abcdef);
    static uint64_t words[WORDS];

    EXPECT_OK(check, "memory.fill: where the kernel will write",
              check->memory_ops.fill(check->instance, kernel->context, address, 0, sizeof words, &check->error));
    EXPECT_OK(check, "execution.launch: the published kernel",
              facet_check_kernel_launch(check, kernel, address, WORDS / 2, value));
    EXPECT_OK(check, "execution.synchronize: waits for the published kernel",
              ops->synchronize(check->instance, kernel->context, kernel->stream, FACET_CHECK_KERNEL_NS, &check->error));
    EXPECT_OK(check, "execution.query: once it was waited for",
              ops->query(check->instance, kernel->context, kernel->stream, &state, &check->error));
    EXPECT_NUMBER(check, "execution.synchronize: ok means that the kernel is complete", state.launched,
                  state.completed);
    EXPECT_OK(check, "memory.read: what the kernel wrote",
              check->memory_ops.read(check->instance, kernel->context, address, sizeof words, words, &check->error));
    EXPECT_TRUE(check, "execution.launch: the kernel wrote its words and no other",
                words[0] == value && words[WORDS / 2 - 1] == value && words[WORDS / 2] == 0,
                "expected: %d words of 0x%" PRIx64 "\ngot: 0x%" PRIx64 " first, 0x%" PRIx64 " behind the last",
                WORDS / 2, value, words[0], words[WORDS / 2]);
    EXPECT_OK(check, "execution.query: afterwards",
              ops->query(check->instance, kernel->context, kernel->stream, &state, &check->error));
    EXPECT_TRUE(check, "execution.query: counts the launch and its device time",
                state.launched == 1 && state.completed == 1 && state.busy_ns > 0 && state.failed == 0,
                "expected: 1 launched, 1 completed, more than 0 ns, status of failure 0\ngot: %" PRIu64
                " launched, %" PRIu64 " completed, %" PRIu64 " ns, status of failure %" PRIu32,
                state.launched, state.completed, state.busy_ns, state.failed);
    if (check->provider->abi_minor >= 4)
        EXPECT_NUMBER(check, "execution.query: what is complete has begun", state.launched, state.begun);
}

static void check_kernels(struct facet_check *check)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_check_kernel kernel = {0};
    uint64_t context = 0, address = 0;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.launch: a kernel runs", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    if (facet_check_kernel_open(check, context, &kernel) &&
        EXPECT_OK(
            check, "memory.alloc: for the kernel to write to",
            check->memory_ops.alloc(check->instance, context, WORDS * sizeof(uint64_t), &address, &check->error))) {
        refuse_wrong_launches(check, &kernel);
        run_kernel(check, &kernel, address);
        facet_check_launch_forms(check, &kernel, address);
        facet_check_queue(check, &kernel, address);
        EXPECT_OK(check, "execution.unload: a module without a running kernel",
                  ops->unload(check->instance, context, kernel.module, &check->error));
        EXPECT_STATUS(check, "execution.unload: a second time is not found", FACET_NOT_FOUND,
                      ops->unload(check->instance, context, kernel.module, &check->error));
    }
    facet_check_drop_context(check, context);
}

static const struct facet_check_case cases[] = {
    {check_streams, FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {check_kernels, FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {facet_check_enqueue, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE},
    {facet_check_share, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_SHARE},
    {facet_check_records, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_RECORD},
    {facet_check_control, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_CONTROL},
    {facet_check_schedule, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_SCHEDULE},
    {NULL, 0}};

const struct facet_check_group facet_check_execution = {
    .name = "execution", .about = "images, streams, launches", .cases = cases};
