/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays recorded kernels on a simulated device, through the provider ABI alone.
 *
 * usage: sim_replay [--provider FILE] [--device N] [--fit] TRACE.csv|TRACE.json
 *
 * TRACE.csv has the header of Orion's traces, Name,Profile,Memory_footprint,SM_usage,Duration. Duration is in ns;
 * SM_usage is taken as the number of work-groups, because these traces have no launch dimensions. TRACE.json has the
 * form of REEF's traces: "kernels" with launch dimensions; their latencies (us) are in TRACE.profile.json beside it.
 * Without --fit each launch takes exactly its recorded time. With --fit one cost is fitted for each
 * kernel name, and the output shows how well the model explains the single launches. FACET_SIM_PROFILE chooses the
 * machine (default h100). Time is stepped, so an hour is replayed in a moment.
 *
 * Owns: reading traces, the fit, the table that it prints. Exit status: 0, 1 (refused), 2 (usage).
 * Never: calls a modelled time measured.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <facet/provider.h>

#define PROBE_CYCLES UINT64_C(100000)          /* cycles for each work-group of a kernel whose cost is not yet fitted */
#define COST_MAX     ((UINT64_C(1) << 40) - 1) /* the simulator's largest cycles_per_group, and duration_ns */
#define WAIT_NS      UINT64_C(60000000000)

struct record {
    size_t name; /* index into names */
    uint32_t groups;
    uint64_t recorded_ns, modelled_ns;
};

struct name {
    char *text;
    uint64_t cycles; /* per work-group, with --fit */
    uint64_t launches, recorded_ns, modelled_ns, error_ns;
};

struct trace {
    struct record *records;
    struct name *names;
    size_t record_count, name_count;
};

struct device {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct facet_device_info info;
    uint64_t context, stream;
    struct facet_error error;
};

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("sim_replay: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *grow(void *items, size_t count, size_t size)
{
    void *grown = items;

    if (count == 0 || (count & (count - 1)) == 0) /* room doubles at each power of two */
        grown = reallocarray(items, count ? count * 2 : 1, size);
    if (!grown)
        refuse("not enough memory for the trace");
    return grown;
}

/* --- traces --- */

static size_t name_index(struct trace *trace, const char *text)
{
    for (size_t i = 0; i < trace->name_count; i++)
        if (strcmp(trace->names[i].text, text) == 0)
            return i;
    trace->names = grow(trace->names, trace->name_count, sizeof *trace->names);
    struct name *name = &trace->names[trace->name_count];
    *name = (struct name){.text = strdup(text), .cycles = PROBE_CYCLES};
    if (!name->text)
        refuse("not enough memory for a kernel's name");
    return trace->name_count++;
}

static void add_record(struct trace *trace, const char *name, uint64_t groups, uint64_t ns)
{
    if (groups < 1 || groups > INT32_MAX || ns < 1 || ns > COST_MAX)
        refuse("kernel %zu (%s): %" PRIu64 " groups, %" PRIu64 " ns: expected at least 1 of each, below 2^31 and 2^40",
               trace->record_count + 1, name, groups, ns);
    trace->records = grow(trace->records, trace->record_count, sizeof *trace->records);
    trace->records[trace->record_count++] =
        (struct record){.name = name_index(trace, name), .groups = (uint32_t)groups, .recorded_ns = ns};
}

/* Cuts the last column off a line and reads its number. Names hold commas, so lines are read from their end. */
static uint64_t cut_number(char *line, unsigned number, const char *column)
{
    char *comma = strrchr(line, ','), *end = NULL;
    uint64_t value = comma ? strtoull(comma + 1, &end, 10) : 0;

    if (!comma || end == comma + 1 || *end)
        refuse("line %u: %s: expected a whole number", number, column);
    *comma = '\0';
    return value;
}

static void read_csv(const char *path, struct trace *trace)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;

    if (!file)
        refuse("%s: %m", path);
    for (unsigned number = 1; getline(&line, &size, file) >= 0; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (number == 1) {
            if (strcmp(line, "Name,Profile,Memory_footprint,SM_usage,Duration") != 0)
                refuse("%s: expected the header Name,Profile,Memory_footprint,SM_usage,Duration", path);
            continue;
        }
        if (!line[0])
            continue;
        uint64_t ns = cut_number(line, number, "Duration"), groups = cut_number(line, number, "SM_usage");
        cut_number(line, number, "Memory_footprint");
        cut_number(line, number, "Profile");
        add_record(trace, line, groups, ns);
    }
    free(line);
    fclose(file);
}

static json_t *load_json(const char *path)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);

    if (!document)
        refuse("%s: line %d: %s", path, error.line, error.text);
    return document;
}

static json_t *load_latencies(const char *path)
{
    char beside[PATH_MAX];
    int stem = (int)strlen(path) - (int)strlen(".json");

    if (snprintf(beside, sizeof beside, "%.*s.profile.json", stem, path) >= (int)sizeof beside)
        refuse("%s: expected a shorter path", path);
    return load_json(beside);
}

static uint64_t read_dimension(const char *path, size_t kernel, const json_t *dimension, json_int_t most)
{
    json_int_t blocks = json_integer_value(dimension);

    if (blocks < 1 || blocks > most)
        refuse("%s: kernels[%zu]: expected launch dimensions of 1 to %" JSON_INTEGER_FORMAT
               ", got %" JSON_INTEGER_FORMAT,
               path, kernel, most, blocks);
    return (uint64_t)blocks;
}

static void read_json(const char *path, struct trace *trace)
{
    json_t *document = load_json(path), *profile = load_latencies(path), *kernel;
    json_t *latencies = json_object_get(profile, "kernel_latency"), *kernels = json_object_get(document, "kernels");
    size_t i;

    if (!json_is_array(kernels) || !json_is_object(latencies))
        refuse("%s: expected \"kernels\", and \"kernel_latency\" in the profile beside it", path);
    json_array_foreach (kernels, i, kernel) {
        const char *name = json_string_value(json_object_get(kernel, "name"));
        json_t *dimensions = json_object_get(kernel, "launch_params");
        json_t *latency = json_object_get(json_object_get(latencies, name ? name : ""), "total_latency");
        uint64_t groups = 1;

        if (!name || json_array_size(dimensions) != 6 || !json_is_integer(latency) || json_integer_value(latency) < 0)
            refuse("%s: kernels[%zu]: expected a name with a latency, and 6 launch dimensions", path, i);
        for (size_t axis = 0; axis < 3; axis++)
            groups *= read_dimension(path, i, json_array_get(dimensions, axis), axis == 0 ? INT32_MAX : UINT16_MAX);
        add_record(trace, name, groups, (uint64_t)json_integer_value(latency) * 1000);
    }
    json_decref(document);
    json_decref(profile);
}

static void read_trace(const char *path, struct trace *trace)
{
    const char *suffix = strrchr(path, '.');

    if (suffix && strcmp(suffix, ".json") == 0)
        read_json(path, trace);
    else
        read_csv(path, trace);
    if (trace->record_count == 0)
        refuse("%s: expected at least one kernel", path);
}

/* --- the device --- */

/* The simulator's provider: in the folder above this program's, as in a build folder, else the installed one. */
static const char *default_provider(void)
{
    static char path[PATH_MAX + 64];
    char self[PATH_MAX] = "";

    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) {
        snprintf(path, sizeof path, "%s/../facet-provider-sim.so", dirname(self));
        if (access(path, R_OK) == 0)
            return path;
    }
    return FACET_PLUGIN_DIR "/facet-provider-sim.so";
}

static void check(struct device *device, enum facet_status status, const char *operation)
{
    if (status != FACET_OK)
        refuse("%s: %s (status %d)", operation, device->error.message, (int)status);
}

static void load_provider(const char *path, struct device *device)
{
    const struct facet_provider_host host = {sizeof host, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR,
                                             &device->error};
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    facet_provider_entry_func entry;

    if (!object)
        refuse("%s", dlerror());
    *(void **)&entry = dlsym(object, FACET_PROVIDER_ENTRY_NAME);
    if (!entry)
        refuse("%s: expected a provider", path);
    check(device, entry(&host, &device->provider), "entry");
    if (!device->provider->execution || !device->provider->memory)
        refuse("%s: expected a provider that executes", path);
}

static void open_device(const char *path, uint32_t index, struct device *device)
{
    struct facet_device_info infos[64];
    uint32_t count = 0;

    setenv("FACET_SIM_PROFILE", "h100", 0);
    setenv("FACET_SIM_CLOCK", "stepped", 0);
    load_provider(path, device);
    check(device, device->provider->device->open(&device->instance, &device->error), "open");
    check(device, device->provider->device->list(device->instance, infos, sizeof *infos, 64, &count, &device->error),
          "list");
    if (index >= count)
        refuse("--device %" PRIu32 ": expected less than %" PRIu32, index, count);
    device->info = infos[index];
    check(device,
          device->provider->memory->create_context(device->instance, index, NULL, "replay", &device->context,
                                                   &device->error),
          "create_context");
    check(
        device,
        device->provider->execution->create_stream(device->instance, device->context, &device->stream, &device->error),
        "create_stream");
}

/* --- replaying --- */

/* With `fit`, the image has a kernel for each name, with the name's cost; otherwise a kernel for each record, with the
 * record's time. */
static char *write_image(const struct trace *trace, bool fit)
{
    char *image = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&image, &size);

    if (!file)
        refuse("no memory for an image");
    for (size_t i = 0; fit && i < trace->name_count; i++)
        fprintf(file, "kernel k%zu cycles_per_group=%" PRIu64 "\n", i, trace->names[i].cycles);
    for (size_t i = 0; !fit && i < trace->record_count; i++)
        fprintf(file, "kernel k%zu duration_ns=%" PRIu64 "\n", i, trace->records[i].recorded_ns);
    if (fclose(file) != 0)
        refuse("no memory for an image");
    return image;
}

static uint64_t busy_ns(struct device *device)
{
    struct facet_stream_state state = {.size = sizeof state};

    check(device,
          device->provider->execution->query(device->instance, device->context, device->stream, &state, &device->error),
          "query");
    return state.busy_ns;
}

static void replay_record(struct device *device, uint64_t module, size_t kernel, struct record *record)
{
    const struct facet_execution_ops *execution = device->provider->execution;
    struct facet_launch launch = {
        .size = sizeof launch, .module = module, .grid = {record->groups, 1, 1}, .group = {1, 1, 1}};
    uint64_t before = busy_ns(device);

    snprintf(launch.kernel, sizeof launch.kernel, "k%zu", kernel);
    check(device, execution->launch(device->instance, device->context, device->stream, &launch, NULL, &device->error),
          "launch");
    check(device, execution->synchronize(device->instance, device->context, device->stream, WAIT_NS, &device->error),
          "synchronize");
    record->modelled_ns = busy_ns(device) - before;
}

static void replay(struct device *device, struct trace *trace, bool fit)
{
    char *image = write_image(trace, fit);
    uint64_t module;

    check(device,
          device->provider->execution->load(device->instance, device->context, image, strlen(image), &module,
                                            &device->error),
          "load");
    free(image);
    for (size_t i = 0; i < trace->record_count; i++)
        replay_record(device, module, fit ? trace->records[i].name : i, &trace->records[i]);
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static void sum_by_name(struct trace *trace)
{
    for (size_t i = 0; i < trace->name_count; i++)
        trace->names[i] = (struct name){.text = trace->names[i].text, .cycles = trace->names[i].cycles};
    for (size_t i = 0; i < trace->record_count; i++) {
        const struct record *record = &trace->records[i];
        struct name *name = &trace->names[record->name];

        name->launches++;
        name->recorded_ns += record->recorded_ns;
        name->modelled_ns += record->modelled_ns;
        name->error_ns += difference(record->recorded_ns, record->modelled_ns);
    }
}

/* Scales each name's cost so that its launches together take the recorded time. */
static void fit_costs(struct trace *trace)
{
    sum_by_name(trace);
    for (size_t i = 0; i < trace->name_count; i++) {
        struct name *name = &trace->names[i];
        double cycles = (double)name->cycles * (double)name->recorded_ns / (double)name->modelled_ns;

        name->cycles = cycles < 1 ? 1 : cycles > (double)COST_MAX ? COST_MAX : (uint64_t)cycles;
    }
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100.0 * (double)part / (double)whole;
}

static void print_table(const struct device *device, const struct trace *trace)
{
    uint64_t recorded = 0, modelled = 0, error = 0;

    printf("device    %s\n", device->info.name);
    printf("launches  recorded_us  modelled_us  error_%%  kernel\n");
    for (size_t i = 0; i < trace->name_count; i++) {
        const struct name *name = &trace->names[i];

        recorded += name->recorded_ns;
        modelled += name->modelled_ns;
        error += name->error_ns;
        printf("%8" PRIu64 "  %11.3f  %11.3f  %7.2f  %.80s\n", name->launches, (double)name->recorded_ns / 1000,
               (double)name->modelled_ns / 1000, percent(name->error_ns, name->recorded_ns), name->text);
    }
    printf("%8zu  %11.3f  %11.3f  %7.2f  total\n", trace->record_count, (double)recorded / 1000,
           (double)modelled / 1000, percent(error, recorded));
    printf("modelled throughput: %.0f launches/s\n", (double)trace->record_count * 1e9 / (double)modelled);
}

int main(int count, char **arguments)
{
    static const struct option options[] = {{"provider", required_argument, NULL, 'p'},
                                            {"device", required_argument, NULL, 'd'},
                                            {"fit", no_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    const char *provider = NULL;
    struct device device = {0};
    struct trace trace = {0};
    uint32_t index = 0;
    bool fit = false;

    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        if (option == 'p')
            provider = optarg;
        else if (option == 'd')
            index = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 'f')
            fit = true;
        else
            return 2;
    }
    if (optind + 1 != count) {
        fputs("usage: sim_replay [--provider FILE] [--device N] [--fit] TRACE.csv|TRACE.json\n", stderr);
        return 2;
    }
    read_trace(arguments[optind], &trace);
    open_device(provider ? provider : default_provider(), index, &device);
    replay(&device, &trace, fit);
    if (fit) {
        fit_costs(&trace);
        replay(&device, &trace, true);
    }
    sum_by_name(&trace);
    print_table(&device, &trace);
    device.provider->device->close(device.instance);
    for (size_t i = 0; i < trace.name_count; i++)
        free(trace.names[i].text);
    free(trace.names);
    free(trace.records);
    return 0;
}
