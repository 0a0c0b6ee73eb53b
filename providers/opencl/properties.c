/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: further facts that a driver reports of a device, as text. Never: writes a line for an unknown value. */
#include "opencl.h"

struct writer {
    char text[4096];
    size_t length;
};

/* A text is cut to the length of a line; all lines together fit by far. */
static void write_text(struct writer *writer, const char *key, const char *value)
{
    char line[256], clean[192];

    FACET_KIT_TEXT(clean, value);
    int length = snprintf(line, sizeof line, "%s=%s\n", key, clean);
    if (clean[0] && writer->length + (size_t)length < sizeof writer->text) {
        memcpy(writer->text + writer->length, line, (size_t)length + 1);
        writer->length += (size_t)length;
    }
}

static void write_device_texts(struct writer *writer, cl_device_id device)
{
    static const struct {
        const char *key;
        cl_device_info what;
    } texts[] = {
        {"opencl_version", CL_DEVICE_VERSION},
        {"opencl_c_version", CL_DEVICE_OPENCL_C_VERSION},
        {"profile", CL_DEVICE_PROFILE},
        {"conformance_version", CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED},
        {"built_in_kernels", CL_DEVICE_BUILT_IN_KERNELS},
        {"il_version", CL_DEVICE_IL_VERSION},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FACET_OPENCL_CLEANUP_TEXT char *text = facet_opencl_device_text(device, texts[i].what);

        if (text)
            write_text(writer, texts[i].key, text);
    }
}

static void write_platform(struct writer *writer, cl_device_id device)
{
    cl_platform_id platform = NULL;

    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL) != CL_SUCCESS)
        return;
    FACET_OPENCL_CLEANUP_TEXT char *name = facet_opencl_platform_text(platform, CL_PLATFORM_NAME);
    FACET_OPENCL_CLEANUP_TEXT char *version = facet_opencl_platform_text(platform, CL_PLATFORM_VERSION);
    if (name)
        write_text(writer, "platform", name);
    if (version)
        write_text(writer, "platform_version", version);
}

static void write_number(struct writer *writer, const char *key, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    write_text(writer, key, text);
}

static uint64_t count_words(const char *text)
{
    uint64_t count = 0;

    for (const char *at = text; *at; at++)
        count += *at != ' ' && (at == text || at[-1] == ' ');
    return count;
}

static void write_amounts(struct writer *writer, cl_device_id device)
{
    FACET_OPENCL_CLEANUP_TEXT char *extensions = facet_opencl_device_text(device, CL_DEVICE_EXTENSIONS);
    cl_ulong bytes;
    size_t items;
    cl_uint most;

    if (extensions)
        write_number(writer, "extensions", count_words(extensions));
    if (clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS)
        write_number(writer, "local_memory_bytes", bytes);
    if (clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof items, &items, NULL) == CL_SUCCESS)
        write_number(writer, "max_work_group_size", items);
    if (clGetDeviceInfo(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most, NULL) == CL_SUCCESS)
        write_number(writer, "max_sub_devices", most);
}

enum facet_status facet_opencl_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                          uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    struct writer writer = {.length = 0};
    enum facet_status status = facet_opencl_check(instance, device, 0, error);

    if (status != FACET_OK)
        return status;
    write_platform(&writer, instance->devices[device].id);
    write_device_texts(&writer, instance->devices[device].id);
    write_amounts(&writer, instance->devices[device].id);
    return facet_kit_text_out(writer.text, text, capacity, ret_size, error);
}
