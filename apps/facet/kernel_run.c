/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet kernel run`. Never: shows a buffer that was not read back, or a time that was not measured. */
#include "kernel_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "kernel/image.h"
#include "kernel_argument.h"
#include "kernel_build.h"
#include "kernel_device.h"
#include "kernel_range.h"
#include "kernel_view.h"
#include "view.h"

enum { ARGUMENTS_MOST = 256, PRINT_DEFAULT = 8, PRINT_MOST = 1 << 20, TIMEOUT_MOST_S = 86400 };

struct request {
    struct kernel_build build;
    struct kernel_argument arguments[ARGUMENTS_MOST];
    uint32_t argument_count;
    struct kernel_range range;
    const char *device, *kernel, *source;
    uint64_t print, timeout_s;
    bool json;
    bool launched; /* the request was valid: a later failure is not wrong usage */
    const struct facet_host_kernel *host_kernel;
};

static void request_clear(struct request *request)
{
    for (uint32_t i = 0; i < request->argument_count; i++)
        kernel_argument_clear(&request->arguments[i]);
    kernel_build_clear(&request->build);
}

/* --- the command line ------------------------------------------------------------------------------------------- */

static bool take_argument(const struct command *self, struct request *request)
{
    struct facet_error error = {0};

    if (request->argument_count == ARGUMENTS_MOST) {
        command_usage(self, "--arg '%.64s': expected at most %d arguments", optarg, ARGUMENTS_MOST);
        return false;
    }
    if (kernel_argument_parse(optarg, &request->arguments[request->argument_count], &error) != FACET_OK) {
        command_usage(self, "%s", error.message);
        return false;
    }
    request->argument_count++;
    return true;
}

/* Takes --out INDEX=FILE, where INDEX counts the --arg options before it. */
static bool take_output(const struct command *self, struct request *request)
{
    char *end;
    unsigned long index = strtoul(optarg, &end, 10);

    if (optarg[0] >= '0' && optarg[0] <= '9' && *end == '=' && end[1] && index < request->argument_count &&
        request->arguments[index].form == KERNEL_FORM_BUFFER && !request->arguments[index].output) {
        request->arguments[index].output = end + 1;
        return true;
    }
    if (index < request->argument_count && request->arguments[index].output) {
        command_usage(self, "--out '%.64s': argument %lu goes to '%.64s' already; expected one file for each", optarg,
                      index, request->arguments[index].output);
        return false;
    }
    command_usage(self,
                  "--out '%.64s': expected INDEX=FILE, where INDEX counts the --arg before it from 0 and is a buffer's",
                  optarg);
    return false;
}

static bool take_number(const struct command *self, const char *name, uint64_t least, uint64_t most,
                        uint64_t *ret_number)
{
    char *end;
    uint64_t number = strtoull(optarg, &end, 10);

    if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && number >= least && number <= most) {
        *ret_number = number;
        return true;
    }
    command_usage(self, "%s '%.64s': expected a number from %" PRIu64 " to %" PRIu64, name, optarg, least, most);
    return false;
}

static bool take_option(const struct command *self, struct request *request, int option)
{
    bool wrong = false;

    if (option == 'd')
        request->device = optarg;
    else if (option == OPTION_KERNEL)
        request->kernel = optarg;
    else if (option == OPTION_GLOBAL || option == OPTION_GROUP || option == OPTION_OFFSET)
        return kernel_range_option(self, &request->range, option);
    else if (option == OPTION_ARG)
        return take_argument(self, request);
    else if (option == OPTION_OUT)
        return take_output(self, request);
    else if (option == OPTION_PRINT)
        return take_number(self, "--print", 0, PRINT_MOST, &request->print);
    else if (option == OPTION_TIMEOUT)
        return take_number(self, "--timeout", 1, TIMEOUT_MOST_S, &request->timeout_s);
    else if (option == OPTION_JSON)
        request->json = true;
    else
        return kernel_build_option(self, &request->build, option, &wrong) && !wrong;
    return true;
}

static bool read_options(const struct command *self, int argc, char **argv, struct request *request, int *ret_exit)
{
    static const struct option words[] = {
        KERNEL_BUILD_WORDS,
        {"device", required_argument, NULL, 'd'},
        {"kernel", required_argument, NULL, OPTION_KERNEL},
        {"global", required_argument, NULL, OPTION_GLOBAL},
        {"group", required_argument, NULL, OPTION_GROUP},
        {"offset", required_argument, NULL, OPTION_OFFSET},
        {"arg", required_argument, NULL, OPTION_ARG},
        {"print", required_argument, NULL, OPTION_PRINT},
        {"out", required_argument, NULL, OPTION_OUT},
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    int option;

    *ret_exit = EXIT_USAGE;
    while ((option = command_option(self, argc, argv, ":hd:" KERNEL_BUILD_LETTERS, words)) != -1) {
        if (option == 'h') {
            *ret_exit = command_help(self);
            return false;
        }
        if (!take_option(self, request, option))
            return false;
    }
    return true;
}

/* --- the image -------------------------------------------------------------------------------------------------- */

/* Reads the image, or compiles the source for the device. */
static enum facet_status make_image(struct request *request, const struct kernel_device *device,
                                    struct facet_image **ret_image, struct facet_error *error)
{
    KERNEL_TEXT_CLEANUP struct kernel_text text = {0};
    enum facet_status status = kernel_text_read(request->source, &text, error);

    if (status != FACET_OK)
        return status;
    if (facet_image_is_code(text.bytes, text.size)) {
        status = kernel_build_refuse_options(&request->build, request->source, error);
        return status == FACET_OK ? facet_image_parse(text.bytes, text.size, ret_image, error) : status;
    }
    if (!request->build.target && device->target[0])
        request->build.target = device->target;
    if (!request->build.target)
        return facet_error_argument(error, FACET_UNSUPPORTED, "target",
                                    "device %s does not say which target its kernels are for; give it with --target",
                                    device->id);
    status = kernel_build_compile(&request->build, request->source, &text, ret_image, error);
    if (*ret_image)
        kernel_view_remarks(*ret_image, request->source, &text);
    return status;
}

/* Compares families only: the provider knows which images a processor of the family can load. */
static enum facet_status check_target(const struct kernel_device *device, const struct facet_image *image,
                                      struct facet_error *error)
{
    const char *target = facet_image_target(image);
    size_t length = strcspn(target, ":");

    if (!device->target[0] || (strcspn(device->target, ":") == length && strncmp(device->target, target, length) == 0))
        return FACET_OK;
    return facet_error_argument(error, FACET_UNSUPPORTED, "target", "the image is for %s; %s runs %s", target,
                                device->id, device->target);
}

/* Refuses an unchecked image when checks were requested: a run without checks would look like one that passed them. */
static enum facet_status check_image_is_checked(const struct request *request, const struct facet_image *image,
                                                struct facet_error *error)
{
    uint64_t checks_required = 0;
    enum facet_status status = facet_config_u64(FACET_SETTING_CHECK, &checks_required, error);

    if (status != FACET_OK || (!request->build.check && !checks_required) ||
        json_is_true(json_object_get(image->description, "check")))
        return status;
    return facet_error_argument(error, FACET_UNSUPPORTED, "check",
                                "%s: the image is not checked; compile it with --check",
                                request->build.check ? "--check" : "FACET_CHECK=1");
}

/* Chooses the kernel that --kernel names, or the only one of the image. */
static enum facet_status choose_kernel(struct request *request, const struct facet_image *image,
                                       struct facet_error *error)
{
    const struct facet_host_kernel *first = facet_image_kernel(image, 0), *second = facet_image_kernel(image, 1);

    if (request->kernel) {
        request->host_kernel = facet_image_find(image, request->kernel);
        /* NULL is no error here: facet_kernel_load() refuses the name, and lists the kernels. */
        return FACET_OK;
    }
    if (!first)
        return facet_error_argument(error, FACET_NOT_FOUND, "kernel", "%.200s has no kernel", request->source);
    if (second)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kernel",
                                    "%.150s has several kernels (%.40s, %.40s, ...); expected --kernel NAME",
                                    request->source, first->name, second->name);
    request->host_kernel = first;
    request->kernel = first->name;
    return FACET_OK;
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static const char *form_expected(const struct facet_host_argument *argument)
{
    switch (argument->kind) {
    case FACET_ARGUMENT_GLOBAL:
        return "buffer:TYPE:COUNT";
    case FACET_ARGUMENT_LOCAL:
        return "local:BYTES";
    case FACET_ARGUMENT_IMAGE:
        return "none: images cannot be given here";
    default:
        return "TYPE:VALUE";
    }
}

static enum facet_status check_count(const struct request *request, struct facet_error *error)
{
    const struct facet_host_kernel *kernel = request->host_kernel;
    uint32_t given = request->argument_count;

    if (kernel && given < kernel->argument_count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "kernel %s takes %" PRIu32 " arguments, %" PRIu32
                                    " are given; for '%.60s %.60s' expected --arg %s",
                                    kernel->name, kernel->argument_count, given, kernel->arguments[given].type,
                                    kernel->arguments[given].name, form_expected(&kernel->arguments[given]));
    if (kernel && given > kernel->argument_count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "kernel %s takes %" PRIu32 " arguments; %" PRIu32 " are given", kernel->name,
                                    kernel->argument_count, given);
    return FACET_OK;
}

/* The scalar of the argument's type: "float4*" is made of float. NULL for structs and typedefs of the source. */
static const struct kernel_type *scalar_of(const struct facet_host_argument *argument)
{
    static const struct kernel_type scalars[] = {
        {"char", 1, 'i'}, {"uchar", 1, 'u'}, {"short", 2, 'i'}, {"ushort", 2, 'u'}, {"int", 4, 'i'},
        {"uint", 4, 'u'}, {"long", 8, 'i'},  {"ulong", 8, 'u'}, {"float", 4, 'f'},  {"double", 8, 'f'},
    };
    static const char *const widths[] = {"", "2", "3", "4", "8", "16"};
    size_t length = strcspn(argument->type, "0123456789*");
    const char *width = argument->type + length, *pointer = argument->kind == FACET_ARGUMENT_GLOBAL ? "*" : "";
    size_t digits = strspn(width, "0123456789");
    bool plain = strcmp(width + digits, pointer) == 0, is_width = false;

    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        is_width |= strlen(widths[i]) == digits && strncmp(width, widths[i], digits) == 0;
    for (size_t i = 0; plain && is_width && i < sizeof scalars / sizeof scalars[0]; i++)
        if (strlen(scalars[i].name) == length && strncmp(argument->type, scalars[i].name, length) == 0)
            return &scalars[i];
    return NULL;
}

/* Vectors of three and of four elements have the same size, and later checks compare only sizes. */
static bool has_count(const struct facet_host_argument *argument, const struct kernel_argument *given)
{
    uint64_t lanes = strtoull(argument->type + strcspn(argument->type, "0123456789"), NULL, 10);

    return (lanes != 3 && lanes != 4) || (given->count != 3 && given->count != 4) || lanes == given->count;
}

/* Numbers of another kind or size would arrive as bits that mean something else. Signs do not matter. */
static enum facet_status check_type(const struct facet_host_kernel *kernel, uint32_t index,
                                    const struct kernel_argument *given, struct facet_error *error)
{
    const struct facet_host_argument *argument = &kernel->arguments[index];
    const struct kernel_type *scalar = scalar_of(argument);
    enum kernel_argument_form form = KERNEL_FORM_VALUE;

    if (argument->kind == FACET_ARGUMENT_IMAGE)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "argument %" PRIu32 " (%.60s %.60s) of kernel %s is an image, which cannot be "
                                    "given on the command line; expected a kernel of buffers",
                                    index, argument->type, argument->name, kernel->name);
    if (argument->kind == FACET_ARGUMENT_GLOBAL && given->form == KERNEL_FORM_VALUE)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "argument %" PRIu32 " (%.60s %.60s) of kernel %s is memory; expected --arg %s",
                                    index, argument->type, argument->name, kernel->name, form_expected(argument));
    if (argument->kind == FACET_ARGUMENT_GLOBAL)
        form = KERNEL_FORM_BUFFER;
    else if (argument->kind != FACET_ARGUMENT_VALUE)
        return FACET_OK;
    if (scalar && form == KERNEL_FORM_VALUE && given->form == form && !has_count(argument, given))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "argument %" PRIu32 " (%.60s %.60s) of kernel %s is given %" PRIu64
                                    " numbers; expected as many as the vector has",
                                    index, argument->type, argument->name, kernel->name, given->count);
    if (!scalar || given->form != form || /* the loaded kernel refuses a wrong form */
        (scalar->bytes == given->type->bytes && (scalar->family == 'f') == (given->type->family == 'f')))
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                "argument %" PRIu32 " (%.60s %.60s) of kernel %s is given %s%s; expected %s%c%" PRIu32,
                                index, argument->type, argument->name, kernel->name,
                                form == KERNEL_FORM_BUFFER ? "buffer:" : "", given->type->name,
                                form == KERNEL_FORM_BUFFER ? "buffer:" : "", scalar->family, scalar->bytes * 8);
}

static enum facet_status check_arguments(const struct request *request, struct facet_error *error)
{
    enum facet_status status = check_count(request, error);

    for (uint32_t i = 0; request->host_kernel && i < request->argument_count && status == FACET_OK; i++)
        status = check_type(request->host_kernel, i, &request->arguments[i], error);
    return status;
}

static enum facet_status bind_buffer(const struct kernel_device *device, struct facet_kernel *kernel, uint32_t index,
                                     struct kernel_argument *argument, struct facet_error *error)
{
    const struct facet_memory_ops *memory = facet_session_provider(device->session)->memory;
    struct facet_provider_instance *instance = facet_session_instance(device->session);
    enum facet_status status = kernel_argument_fill(argument, index, error);

    if (status == FACET_OK)
        status = memory->alloc(instance, device->context, argument->bytes, &argument->address, error);
    if (status == FACET_OK)
        status = memory->write(instance, device->context, argument->address, argument->data, argument->bytes, error);
    return status == FACET_OK ? facet_kernel_set_memory(kernel, index, argument->address, error) : status;
}

static enum facet_status bind_argument(struct request *request, const struct kernel_device *device,
                                       struct facet_kernel *kernel, uint32_t index, struct facet_error *error)
{
    struct kernel_argument *argument = &request->arguments[index];

    if (argument->form == KERNEL_FORM_BUFFER)
        return bind_buffer(device, kernel, index, argument, error);
    if (argument->form == KERNEL_FORM_LOCAL)
        return facet_kernel_set_local(kernel, index, (uint32_t)argument->bytes, error);
    return facet_kernel_set_value(kernel, index, argument->value, argument->value_bytes, error);
}

/* The elements of the first buffer; 0: there is none. */
static uint64_t first_buffer_count(const struct request *request)
{
    for (uint32_t i = 0; i < request->argument_count; i++)
        if (request->arguments[i].form == KERNEL_FORM_BUFFER)
            return request->arguments[i].count;
    return 0;
}

static enum facet_status read_back(struct request *request, const struct kernel_device *device,
                                   struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < request->argument_count && status == FACET_OK; i++) {
        struct kernel_argument *argument = &request->arguments[i];
        if (argument->form != KERNEL_FORM_BUFFER)
            continue;
        status = facet_session_provider(device->session)
                     ->memory->read(facet_session_instance(device->session), device->context, argument->address,
                                    argument->bytes, argument->data, error);
        if (status == FACET_OK && argument->output)
            status = kernel_text_write(argument->output, argument->data, argument->bytes, error);
    }
    return status;
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

static enum facet_status launch_kernel(struct request *request, const struct kernel_device *device,
                                       struct facet_kernel *kernel, struct facet_error *error)
{
    enum facet_status status = kernel_range_complete(&request->range, first_buffer_count(request), error);
    bool is_running = false;

    for (uint32_t i = 0; i < request->argument_count && status == FACET_OK; i++)
        status = bind_argument(request, device, kernel, i, error);
    if (status == FACET_OK)
        status = kernel_device_launch(device, kernel, &request->range.range, &request->launched, error);
    if (status == FACET_OK)
        status = kernel_device_wait(device, request->kernel, request->timeout_s * FACET_NS_PER_S, &is_running, error);
    if (status == FACET_DEVICE_LOST && request->launched)
        return kernel_device_blame(device, request->kernel, error);
    if (!is_running)
        return status == FACET_OK ? read_back(request, device, error) : status;
    kernel_device_abandon(device);
    return facet_error_argument(error, status, "--timeout",
                                "kernel %s was still at work after %" PRIu64 " s and was ended", request->kernel,
                                request->timeout_s);
}

static enum facet_status execute_kernel(struct request *request, const struct kernel_device *device,
                                        const struct facet_image *image, struct facet_error *error)
{
    struct facet_kernel *kernel = NULL;
    enum facet_status status = check_target(device, image, error);

    if (status == FACET_OK)
        status = check_image_is_checked(request, image, error);
    if (status == FACET_OK)
        status = choose_kernel(request, image, error);
    if (status == FACET_OK)
        status = check_arguments(request, error);
    if (status == FACET_OK)
        status = facet_kernel_load(device->session, device->context, image, request->kernel, &kernel, error);
    if (status != FACET_OK)
        return status;
    status = launch_kernel(request, device, kernel, error);
    facet_kernel_destroy(kernel);
    return status;
}

/* --- results ---------------------------------------------------------------------------------------------------- */

/* Whether the argument is a buffer that the kernel may have written. */
static bool is_result(const struct request *request, uint32_t index)
{
    return request->arguments[index].form == KERNEL_FORM_BUFFER &&
           request->host_kernel->arguments[index].access & FACET_ARGUMENT_WRITES;
}

static void print_results(const struct request *request)
{
    char text[64];

    for (uint32_t i = 0; request->print && i < request->argument_count; i++) {
        const struct kernel_argument *argument = &request->arguments[i];
        if (!is_result(request, i))
            continue;
        const char *name = request->host_kernel->arguments[i].name;
        printf("%s%s%" PRIu32 ":", name, name[0] ? " " : "", i);
        for (uint64_t j = 0; j < argument->count && j < request->print; j++)
            printf(" %s", kernel_element_print(argument, j, text, sizeof text));
        puts(argument->count > request->print ? " ..." : "");
    }
}

/* Prints to standard error, so that standard output has results only. */
static void print_times(const struct request *request, const struct kernel_device *device,
                        const struct facet_launch_record *record)
{
    char wait[VIEW_SIZE], run[VIEW_SIZE], busy[VIEW_SIZE];

    fprintf(stderr,
            "%s on %s: %s; waited %s, %s of time on %" PRIu32 " %s, %" PRIu64 " work-groups, preempted %" PRIu32
            " times\n",
            request->kernel, device->id, kernel_view_time(record->end_ns - record->start_ns, run),
            kernel_view_time(record->start_ns - record->queued_ns, wait), kernel_view_time(record->busy_ns, busy),
            record->units, record->units == 1 ? "unit" : "units", record->groups, record->preemptions);
}

static json_t *results_json(const struct request *request)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < request->argument_count; i++) {
        const struct kernel_argument *argument = &request->arguments[i];
        json_t *values = json_array();
        if (!is_result(request, i)) {
            json_decref(values);
            continue;
        }
        for (uint64_t j = 0; j < argument->count && j < request->print; j++)
            json_array_append_new(values, kernel_element_json(argument, j));
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:I, s:o}", "index", (int)i, "name",
                                              request->host_kernel->arguments[i].name, "type", argument->type->name,
                                              "count", (json_int_t)argument->count, "values", values));
    }
    return list;
}

static int print_json(const struct command *self, const struct request *request, const struct kernel_device *device,
                      const char *target, const struct facet_launch_record *record)
{
    json_t *object = json_pack("{s:s, s:s, s:s, s:o}", "kernel", request->kernel, "device", device->id, "target",
                               target, "results", results_json(request));

    if (object && record)
        json_object_set_new(object, "launch",
                            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "waited_ns",
                                      (json_int_t)(record->start_ns - record->queued_ns), "ran_ns",
                                      (json_int_t)(record->end_ns - record->start_ns), "busy_ns",
                                      (json_int_t)record->busy_ns, "groups", (json_int_t)record->groups, "units",
                                      (json_int_t)record->units, "preemptions", (json_int_t)record->preemptions));
    int status = object ? command_print_json(object) : command_out_of_memory(self);
    json_decref(object);
    return status;
}

static int print_outcome(const struct command *self, const struct request *request, const struct kernel_device *device,
                         const struct facet_image *image)
{
    struct facet_launch_record record;
    bool has_record = kernel_device_record(device, &record) && record.start_ns >= record.queued_ns &&
                      record.end_ns >= record.start_ns;

    if (request->json)
        return print_json(self, request, device, facet_image_target(image), has_record ? &record : NULL);
    print_results(request);
    if (has_record)
        print_times(request, device, &record);
    return EXIT_DONE;
}

static bool check_outputs(const struct command *self, const struct request *request)
{
    for (uint32_t i = 0; i < request->argument_count; i++) {
        const char *output = request->arguments[i].output;
        if (!output || !kernel_text_is_same(request->source, output))
            continue;
        command_usage(self, "--out %" PRIu32 " would overwrite the source, %s; expected another file", i, output);
        return false;
    }
    return true;
}

static int run_kernel(const struct command *self, int argc, char **argv)
{
    __attribute__((cleanup(request_clear))) struct request request = {
        .device = "cpu:0", .print = PRINT_DEFAULT, .timeout_s = 60, .range.range.size = sizeof(struct facet_range)};
    KERNEL_DEVICE_CLEANUP struct kernel_device device = {0};
    KERNEL_IMAGE_CLEANUP struct facet_image *image = NULL;
    struct facet_error error = {0};
    int status = EXIT_DONE;

    if (!kernel_build_take_rest(&request.build, &argc, argv))
        return command_out_of_memory(self);
    if (!read_options(self, argc, argv, &request, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "the source or image"))
        return EXIT_USAGE;
    request.source = argv[optind];
    if (!check_outputs(self, &request))
        return EXIT_USAGE;
    if (kernel_device_open(request.device, &device, &error) != FACET_OK ||
        make_image(&request, &device, &image, &error) != FACET_OK ||
        execute_kernel(&request, &device, image, &error) != FACET_OK) {
        kernel_build_blame(request.source, &error);
        status = command_refuse(self, request.json, &error, NULL);
        return request.launched ? EXIT_REFUSED : status;
    }
    return print_outcome(self, &request, &device, image);
}

const struct command command_kernel_run = {
    .name = "kernel run",
    .help = "usage: facet kernel run [OPTION...] SOURCE|IMAGE [-- CLANG-OPTION...]\n"
            "\n"
            "Runs one kernel once, waits for it and prints the buffers that it wrote. No\n"
            "daemon is needed.\n"
            "\n"
            "  -d, --device DEVICE    where; default cpu:0, this machine's processors\n"
            "      --kernel NAME      which; default the only one\n"
            "      --arg ARGUMENT     the next argument:\n"
            "                           TYPE:VALUE           f32:2.0, i32:-7, f32:1,2,3,4\n"
            "                           buffer:TYPE:COUNT    COUNT elements in memory\n"
            "                           buffer:...=FILL      zeros, iota, random, a number,\n"
            "                                                or a file of raw elements\n"
            "                           local:SIZE           work-group memory: local:4K\n"
            "      --global X[,Y[,Z]] work-items; default the first buffer's elements\n"
            "      --group X[,Y[,Z]]  work-items of a group; default chosen for you\n"
            "      --offset X[,Y[,Z]] of the first work-item's id\n"
            "      --print COUNT      elements to print of each buffer; default 8\n"
            "      --out INDEX=FILE   write argument INDEX, from 0, to a file, raw\n"
            "      --timeout SECONDS  wait no longer; default 60\n"
            "      --target, -O, -D, -I, --std, --check, --no-cache   as in 'facet compile'\n"
            "      --json             print results and times as JSON\n"
            "\n"
            "TYPE is f32, f64, i8 to i64, or u8 to u64. What is behind '--' goes to clang,\n"
            "when a source is compiled. An image is run as it is, without options that say\n"
            "how to compile, and must be for the device: host code for cpu:0, PTX for a\n"
            "device of cuda, a code object for one of rocm.\n"
            "\n"
            "  facet kernel run saxpy.cl --arg f32:2 --arg buffer:f32:1024=iota \\\n"
            "      --arg buffer:f32:1024=1\n",
    .repeats = (const char *const[]){KERNEL_BUILD_REPEATS, "--arg", "--out", NULL},
    .run = run_kernel,
};
