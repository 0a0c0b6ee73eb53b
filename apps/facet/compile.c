/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet compile`. Never: runs a kernel, or overwrites the source with the image. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "kernel/target.h"
#include "kernel_build.h"
#include "kernel_view.h"
#include "view.h"

struct request {
    struct kernel_build build;
    const char *source, *output; /* output NULL: choose_output() names it after the source */
    bool json, statistics, list;
};

static void request_clear(struct request *request)
{
    kernel_build_clear(&request->build);
}

static int print_targets(const struct command *self, bool json)
{
    static const struct view_column columns[] = {{"TARGET", 0}, {"ABOUT", 0}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    json_t *list = json_array();
    bool complete = table && list;

    for (uint32_t i = 0; complete && facet_target_name(i); i++) {
        const char *name = facet_target_name(i), *about = facet_target_about(i);
        complete = view_row(table, (const char *const[]){name, about}, 2) &&
                   json_array_append_new(list, json_pack("{s:s, s:s}", "target", name, "about", about)) == 0;
    }
    json_t *object = json_pack("{s:o}", "targets", list);
    int status = !complete || !object       ? command_out_of_memory(self)
                 : json                     ? command_print_json(object)
                 : scols_print_table(table) ? command_out_of_memory(self)
                                            : EXIT_DONE;
    json_decref(object);
    return status;
}

/* Names the image after its source: "saxpy.cl" for "ptx:sm_90" gives "saxpy.ptx", in the current folder. */
static void choose_output(const struct request *request, const char *target, char *path, size_t size)
{
    static const struct {
        const char *family, *ending;
    } endings[] = {{"ptx", ".ptx"}, {"amdgcn", ".hsaco"}, {"spirv", ".spv"}, {"host", ".so"}};
    const char *slash = strrchr(request->source, '/'), *ending = "";
    const char *base = strcmp(request->source, "-") == 0 ? "kernel" : slash ? slash + 1 : request->source;
    const char *dot = strrchr(base, '.');
    int stem = dot && dot != base ? (int)(dot - base) : (int)strlen(base);

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (strncmp(target, endings[i].family, strlen(endings[i].family)) == 0)
            ending = endings[i].ending;
    snprintf(path, size, "%.*s%s", stem, base, ending);
}

static int print_result_json(const struct command *self, const struct facet_image *image, const char *path)
{
    json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "image", path, "target", facet_image_target(image),
                               "kernels", kernel_kernels_json(image), "diagnostics", kernel_remarks_json(image),
                               "statistics", kernel_statistics_json(image));
    int status = object ? command_print_json(object) : command_out_of_memory(self);
    json_decref(object);
    return status;
}

/* "saxpy.ptx: ptx:sm_90, 2.1K, 2 kernels: saxpy, scale" */
static void print_summary(const struct facet_image *image, const char *path)
{
    const struct facet_host_kernel *kernel;
    char size[VIEW_SIZE];
    size_t bytes;
    uint32_t count = 0;

    facet_image_bytes(image, &bytes);
    while (facet_image_kernel(image, count))
        count++;
    printf("%s: %s, %s, %" PRIu32 " %s", path, facet_image_target(image), view_memory(bytes, size), count,
           count == 1 ? "kernel" : "kernels");
    for (uint32_t i = 0; (kernel = facet_image_kernel(image, i)); i++)
        printf("%s%s", i ? ", " : ": ", kernel->name);
    putchar('\n');
}

static int print_outcome(const struct command *self, const struct request *request, const struct facet_image *image,
                         const char *path)
{
    if (request->json)
        return print_result_json(self, image, path);
    if (strcmp(path, "-") == 0)
        return EXIT_DONE;
    print_summary(image, path);
    return !request->statistics || kernel_view_statistics(image) ? EXIT_DONE : command_out_of_memory(self);
}

/* The source's faults were printed already, one by one. */
static int refuse_source(const struct command *self, const struct request *request, const struct facet_image *image,
                         uint32_t errors, const struct facet_error *error)
{
    fprintf(stderr, "facet compile: %s has %" PRIu32 " %s\n", request->source, errors,
            errors == 1 ? "error" : "errors");
    if (!request->json)
        return EXIT_REFUSED;
    json_t *object = json_pack("{s:{s:s, s:s, s:s, s:s}, s:o}", "error", "code", facet_status_name(error->status),
                               "argument", "source", "message", error->message, "advice", "correct the source",
                               "diagnostics", kernel_remarks_json(image));
    if (object)
        command_print_json(object);
    json_decref(object);
    return EXIT_REFUSED;
}

static bool is_source(const struct command *self, const struct request *request, const char *path)
{
    if (!kernel_text_is_same(request->source, path))
        return false;
    command_usage(self, "the image would overwrite its source, %s; expected another file behind -o", path);
    return true;
}

static int compile_source(const struct command *self, const struct request *request)
{
    KERNEL_TEXT_CLEANUP struct kernel_text source = {0};
    KERNEL_IMAGE_CLEANUP struct facet_image *image = NULL;
    char chosen[FACET_PATH_SIZE];
    struct facet_error error = {0};
    uint32_t errors = 0;
    size_t size;

    if (request->output && is_source(self, request, request->output))
        return EXIT_USAGE;
    if (kernel_text_read(request->source, &source, &error) != FACET_OK)
        return command_refuse(self, request->json, &error, NULL);
    enum facet_status status = kernel_build_compile(&request->build, request->source, &source, &image, &error);
    if (image)
        errors = kernel_view_remarks(image, request->source, &source);
    if (status != FACET_OK && errors)
        return refuse_source(self, request, image, errors, &error);
    if (status != FACET_OK) {
        kernel_build_blame(request->source, &error);
        return command_refuse(self, request->json, &error, NULL);
    }

    choose_output(request, facet_image_target(image), chosen, sizeof chosen);
    const char *path = request->output ? request->output : chosen;
    if (is_source(self, request, path))
        return EXIT_USAGE;
    const void *bytes = facet_image_bytes(image, &size);
    if (kernel_text_write(path, bytes, size, &error) != FACET_OK)
        return command_refuse(self, request->json, &error, NULL);
    return print_outcome(self, request, image, path);
}

static bool read_options(const struct command *self, int argc, char **argv, struct request *request, int *ret_exit)
{
    static const struct option words[] = {
        KERNEL_BUILD_WORDS,
        {"output", required_argument, NULL, 'o'},
        {"stats", no_argument, NULL, OPTION_STATS},
        {"list-targets", no_argument, NULL, OPTION_LIST_TARGETS},
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    int option = 0;
    bool wrong = false;

    while (!wrong && (option = command_option(self, argc, argv, ":ho:" KERNEL_BUILD_LETTERS, words)) != -1) {
        if (option == 'o')
            request->output = optarg;
        else if (option == OPTION_STATS)
            request->statistics = true;
        else if (option == OPTION_LIST_TARGETS)
            request->list = true;
        else if (option == OPTION_JSON)
            request->json = true;
        else if (option == 'h' || !kernel_build_option(self, &request->build, option, &wrong))
            wrong = true;
    }
    *ret_exit = wrong && option == 'h' ? command_help(self) : EXIT_USAGE;
    return !wrong;
}

static int run_compile(const struct command *self, int argc, char **argv)
{
    __attribute__((cleanup(request_clear))) struct request request = {0};
    int status = EXIT_DONE;

    if (!kernel_build_take_rest(&request.build, &argc, argv))
        return command_out_of_memory(self);
    if (!read_options(self, argc, argv, &request, &status))
        return status;
    if (!command_operands(self, argc, argv, request.list ? 0 : 1, request.list ? 0 : 1, "the source"))
        return EXIT_USAGE;
    if (request.list)
        return print_targets(self, request.json);
    if (request.output && !request.output[0])
        return command_usage(self, "-o '': expected a file, or '-' for standard output");
    if (request.output && strcmp(request.output, "-") == 0 && (request.json || request.statistics))
        return command_usage(self, "the image goes to standard output: expected neither --json nor --stats");
    request.source = argv[optind];
    return compile_source(self, &request);
}

const struct command command_compile = {
    .name = "compile",
    .help = "usage: facet compile [OPTION...] SOURCE [-o FILE] [-- CLANG-OPTION...]\n"
            "\n"
            "Compiles a kernel, in OpenCL C, LLVM IR or SPIR-V, for one target.\n"
            "\n"
            "      --target TARGET  host (this processor), ptx:sm_90, amdgcn:gfx90a, spirv,\n"
            "                       ...; default host\n"
            "      --list-targets   list them\n"
            "  -o, --output FILE    default: the source's name with .so, .ptx, .hsaco or\n"
            "                       .spv, here; '-' is standard output\n"
            "  -O LEVEL             optimize: 0 to 3; default 3\n"
            "  -D NAME[=VALUE]      define a macro\n"
            "  -I FOLDER            where #include looks\n"
            "      --std VERSION    of OpenCL C: CL1.0, CL1.1, CL1.2 (default), CL3.0\n"
            "      --check          let accesses to memory be checked in a run; only for host\n"
            "      --no-cache       neither look in the cache nor keep the image\n"
            "      --stats          print what the compile took\n"
            "      --json           print the result as JSON\n"
            "\n"
            "SOURCE '-' is standard input. What is behind '--' goes to clang, such as\n"
            "-cl-fast-relaxed-math or -Werror. What was compiled before comes from the cache.\n"
            "'facet kernel run' takes the image: PTX for a device of cuda, a code object for\n"
            "one of rocm.\n"
            "\n"
            "  facet compile --target ptx:sm_90 saxpy.cl -o saxpy.ptx\n",
    .repeats = (const char *const[]){KERNEL_BUILD_REPEATS, NULL},
    .run = run_compile,
};
