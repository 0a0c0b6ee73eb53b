/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet kernel` and `facet kernel show`. Never: loads or runs an image to describe it. */
#include <stdio.h>

#include "kernel_build.h"
#include "kernel_run.h"
#include "kernel_view.h"

static int print_image(const struct command *self, const struct facet_image *image, bool json)
{
    if (!json && !facet_image_kernel(image, 0))
        printf("%s; it does not say which kernels it has\n", facet_image_target(image));
    else if (!json)
        return printf("%s\n", facet_image_target(image)) < 0 || !kernel_view_kernels(image)
                   ? command_out_of_memory(self)
                   : EXIT_DONE;
    if (!json)
        return EXIT_DONE;
    json_t *object =
        json_pack("{s:s, s:o}", "target", facet_image_target(image), "kernels", kernel_kernels_json(image));
    int status = object ? command_print_json(object) : command_out_of_memory(self);
    json_decref(object);
    return status;
}

static int run_show(const struct command *self, int argc, char **argv)
{
    KERNEL_TEXT_CLEANUP struct kernel_text text = {0};
    KERNEL_IMAGE_CLEANUP struct facet_image *image = NULL;
    struct facet_error error = {0};
    bool json = false;
    int status = EXIT_DONE;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "the image"))
        return EXIT_USAGE;
    if (kernel_text_read(argv[optind], &text, &error) != FACET_OK ||
        facet_image_parse(text.bytes, text.size, &image, &error) != FACET_OK)
        return command_refuse(self, json, &error, "compile one with 'facet compile'");
    return print_image(self, image, json);
}

static const struct command show = {
    .name = "kernel show",
    .help = "usage: facet kernel show IMAGE [--json]\n"
            "\n"
            "Shows what an image that 'facet compile' made says of itself: its target, its\n"
            "kernels, and what arguments they take. Nothing is loaded or run.\n"
            "\n"
            "  --json    print sizes and places too, as JSON\n",
    .run = run_show,
};

static const struct command *const children[] = {&show, &command_kernel_run, NULL};

const struct command command_kernel = {
    .name = "kernel",
    .help = "usage: facet kernel show|run [...]\n"
            "\n"
            "  show     show what an image holds\n"
            "  run      run one kernel, from a source or an image, and print its results\n",
    .children = children,
    .run = command_dispatch,
};
