/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the kernel that burns time, its calibration, and reading lengths. Never: measures the subject of a bench. */
#include "common.h"

static const char source[] = "kernel void burn(global ulong *sum, ulong rounds)\n"
                             "{\n"
                             "    ulong value = get_group_id(0) + 1;\n"
                             "    for (ulong i = 0; i < rounds; i++)\n"
                             "        value = value * 6364136223846793005ul + 1442695040888963407ul;\n"
                             "    sum[get_group_id(0) % 512] = value;\n"
                             "}\n";

#define CALIBRATION_GROUPS 2000u
#define CALIBRATION_ROUNDS UINT64_C(10000)

static void compile_burn(struct burner *burner)
{
    const struct facet_compile_options options = {.size = sizeof options, .name = "burn.cl", .target = "host"};
    struct facet_compiler *compiler = NULL;
    struct facet_error error;

    must(facet_compiler_create(NULL, &compiler, &error), &error, "compiler");
    must(facet_compile(compiler, source, sizeof source - 1, &options, &burner->image, &error), &error, "compile");
    facet_compiler_destroy(compiler);
}

static void set_rounds(struct facet_kernel *kernel, uint64_t rounds)
{
    struct facet_error error;

    must(facet_kernel_set_value(kernel, 1, &rounds, sizeof rounds, &error), &error, "rounds");
}

static uint64_t launch_groups(struct facet_driver *driver, const struct burn *burn, uint32_t stream, uint64_t groups)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {groups}, .group = {1}};
    struct facet_error error;
    uint64_t execution = 0;

    must(facet_vgpu_execute(driver, burn->id, stream, burn->kernel, &range, &execution, &error), &error, "launch");
    return execution;
}

/* Measures how many rounds take GROUP_NS on an idle device. */
static void calibrate_rounds(struct burner *burner)
{
    const struct facet_vgpu_config config = {.size = sizeof config, .id = 1, .memory_bytes = 16 * MIB};
    struct facet_execution what = {.size = sizeof what};
    struct facet_error error;
    struct burn burn;

    must(facet_vgpu_create(burner->driver, &config, NULL, &error), &error, "vGPU");
    burner->rounds = CALIBRATION_ROUNDS;
    burn_open(burner, 1, 1, &burn);
    uint64_t execution = launch_groups(burner->driver, &burn, 0, CALIBRATION_GROUPS);
    must(facet_vgpu_synchronize(burner->driver, 1, 0, FACET_FOREVER, &error), &error, "calibration");
    must(facet_vgpu_get_execution(burner->driver, 1, execution, &what, &error), &error, "calibration");
    uint64_t group_ns = what.busy_ns / CALIBRATION_GROUPS;
    burner->rounds = CALIBRATION_ROUNDS * GROUP_NS / (group_ns ? group_ns : 1);
    burn_close(&burn);
    must(facet_vgpu_destroy(burner->driver, 1, &error), &error, "vGPU");
}

void burner_open(const struct facet_driver_config *config, struct burner *ret_burner)
{
    struct facet_driver_device device = {.size = sizeof device};
    struct facet_error error;

    *ret_burner = (struct burner){0};
    must(facet_driver_open(config, &ret_burner->driver, &error), &error, "driver");
    facet_driver_get_device(ret_burner->driver, 0, &device);
    ret_burner->units = device.units;
    compile_burn(ret_burner);
    calibrate_rounds(ret_burner);
}

void burner_close(struct burner *burner)
{
    facet_image_destroy(burner->image);
    facet_driver_close(burner->driver);
}

void burn_open(const struct burner *burner, uint32_t id, uint32_t streams, struct burn *ret_burn)
{
    struct facet_error error;
    uint64_t address = 0;

    *ret_burn = (struct burn){.id = id, .streams = streams};
    must(facet_vgpu_allocate(burner->driver, id, 4096, NULL, &address, &error), &error, "memory");
    must(facet_vgpu_load_kernel(burner->driver, id, burner->image, "burn", &ret_burn->kernel, &error), &error,
         "kernel");
    must(facet_kernel_set_memory(ret_burn->kernel, 0, address, &error), &error, "memory");
    set_rounds(ret_burn->kernel, burner->rounds);
}

void burn_close(struct burn *burn)
{
    facet_kernel_destroy(burn->kernel);
}

void burn_launch(const struct burner *burner, const struct burn *burn, uint32_t stream, uint64_t ns,
                 uint64_t *ret_execution)
{
    uint64_t groups = ns * burner->units / GROUP_NS;
    uint64_t execution = launch_groups(burner->driver, burn, stream, groups ? groups : 1);

    if (ret_execution)
        *ret_execution = execution;
}

static void read_line(char *line, struct lengths *lengths)
{
    for (char *end = line; *line; line = end) {
        uint64_t ns = strtoull(line, &end, 10);

        if (end == line)
            break;
        uint64_t *grown = realloc(lengths->ns, (lengths->count + 1) * sizeof *grown);
        if (!grown)
            die("lengths", "no memory");
        lengths->ns = grown;
        lengths->ns[lengths->count++] = ns;
    }
}

void lengths_read(const char *path, uint32_t lines, struct lengths *ret_lengths)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;

    if (!file)
        die(path, "cannot be read");
    for (uint32_t i = 0; i < lines; i++) {
        ret_lengths[i] = (struct lengths){0};
        if (getline(&line, &room, file) > 0)
            read_line(line, &ret_lengths[i]);
        if (ret_lengths[i].count == 0)
            die(path, "expected a line of lengths for each tenant");
    }
    free(line);
    fclose(file);
}
