/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the answers of a simulated kernel. Never: remembers a file that was closed. */
#include "fake_vfio.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "passthrough/vfio/uapi.h"

static int refuse_call(int failed)
{
    errno = failed;
    return -1;
}

static bool call_fails(struct fake_vfio *fake)
{
    return ++fake->calls == fake->fail_at;
}

/* --- files --- */

static int new_file(struct fake_vfio *fake, enum fake_role role, int group)
{
    int fd = memfd_create("fake-vfio", MFD_CLOEXEC);

    assert_in_range(fd, 0, FAKE_FILES - 1);
    fake->files[fd] = (struct fake_file){.role = role, .group = group};
    return fd;
}

static int new_device(struct fake_vfio *fake, int group)
{
    static const uint8_t config[] = {0xde, 0x10, 0x30, 0x23, 0x00, 0x00};
    int fd = new_file(fake, FAKE_DEVICE, group);

    assert_int_equal(ftruncate(fd, (off_t)FAKE_REGION(9)), 0);
    assert_int_equal(pwrite(fd, config, sizeof config, (off_t)FAKE_REGION(FACET_VFIO_CONFIG)), sizeof config);
    return fd;
}

static int open_file(void *data, int directory, const char *path, int flags)
{
    struct fake_vfio *fake = data;
    struct stat status;

    assert_true(flags & O_CLOEXEC);
    if (call_fails(fake))
        return refuse_call(fake->fail_errno);
    if (fstatat(directory, path, &status, 0) != 0)
        return -1;
    if (strcmp(path, "dev/vfio/vfio") == 0)
        return new_file(fake, FAKE_CONTAINER, 0);
    if (strcmp(path, "dev/iommu") == 0)
        return new_file(fake, FAKE_IOMMUFD, 0);
    if (fake->open_errno)
        return refuse_call(fake->open_errno);
    if (strcmp(path, "dev/vfio/devices/vfio0") == 0)
        return new_device(fake, 0);
    return new_file(fake, FAKE_GROUP, atoi(path + strlen("dev/vfio/")));
}

static void *map_file(void *data, int fd, uint64_t offset, size_t bytes, int protection)
{
    struct fake_vfio *fake = data;

    if (call_fails(fake)) {
        errno = fake->fail_errno;
        return MAP_FAILED;
    }
    return mmap(NULL, bytes, protection, MAP_SHARED, fd, (off_t)offset);
}

/* --- mappings --- */

static int add_mapping(struct fake_vfio *fake, uint64_t iova, uint64_t bytes)
{
    if (fake->map_errno)
        return refuse_call(fake->map_errno);
    if (iova + (bytes - 1) > UINT64_C(0xffffffffff) || (iova <= 0xfeefffff && iova + (bytes - 1) >= 0xfee00000))
        return refuse_call(EINVAL);
    for (uint32_t i = 0; i < fake->mapping_count; i++)
        if (iova < fake->mappings[i].iova + fake->mappings[i].bytes && fake->mappings[i].iova < iova + bytes)
            return refuse_call(EEXIST);
    if (fake->mapping_count == fake->mapping_max)
        return refuse_call(ENOSPC);
    fake->mappings[fake->mapping_count++] = (struct fake_mapping){.iova = iova, .bytes = bytes};
    return 0;
}

/* Removes whole mappings in the range, and refuses a range that cuts one in two. */
static int remove_mappings(struct fake_vfio *fake, uint64_t iova, uint64_t bytes, uint64_t *ret_bytes)
{
    uint32_t kept = 0;

    *ret_bytes = 0;
    for (uint32_t i = 0; i < fake->mapping_count; i++) {
        const struct fake_mapping *mapping = &fake->mappings[i];
        uint64_t end = mapping->iova + mapping->bytes;

        if (mapping->iova < iova + bytes && iova < end && (mapping->iova < iova || end > iova + bytes))
            return refuse_call(EINVAL);
    }
    for (uint32_t i = 0; i < fake->mapping_count; i++)
        if (fake->mappings[i].iova >= iova && fake->mappings[i].iova < iova + bytes)
            *ret_bytes += fake->mappings[i].bytes;
        else
            fake->mappings[kept++] = fake->mappings[i];
    fake->mapping_count = kept;
    return 0;
}

/* --- the container --- */

/* The common beginning of the kernel's vfio_iommu_type1_info_cap_iova_range and vfio_region_info_cap_sparse_mmap: all
 * but the arrays at their ends. */
struct list_head {
    struct vfio_info_cap_header header;
    uint32_t count, reserved;
};

struct container_answer {
    struct vfio_iommu_type1_info info;
    struct list_head ranges;
    struct vfio_iova_range range[2];
    struct vfio_iommu_type1_info_dma_avail left;
};

static int answer_container(struct fake_vfio *fake, struct vfio_iommu_type1_info *info)
{
    struct container_answer answer = {
        .info = {.argsz = sizeof answer,
                 .flags = VFIO_IOMMU_INFO_PGSIZES | VFIO_IOMMU_INFO_CAPS,
                 .iova_pgsizes = 4096,
                 .cap_offset = offsetof(struct container_answer, ranges)},
        .ranges = {.header = {.id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE,
                              .version = 1,
                              .next = offsetof(struct container_answer, left)},
                   .count = 2},
        .range = {{.start = 0, .end = 0xfedfffff}, {.start = 0xfef00000, .end = UINT64_C(0xffffffffff)}},
        .left = {.header = {.id = VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, .version = 1},
                 .avail = fake->mapping_max - fake->mapping_count},
    };

    if (!fake->has_iommu)
        return refuse_call(EINVAL);
    if (fake->circular) {
        answer.ranges.header.id = 99;
        answer.ranges.header.next = (uint32_t)offsetof(struct container_answer, ranges);
    }
    memcpy(info, &answer, info->argsz < sizeof answer ? sizeof *info : sizeof answer);
    return 0;
}

static bool any_group_in_container(const struct fake_vfio *fake)
{
    bool any = false;

    for (int fd = 0; fd < FAKE_FILES; fd++)
        any |= fake->files[fd].role == FAKE_GROUP && fake->files[fd].in_space && fcntl(fd, F_GETFD) >= 0;
    return any;
}

static int control_container(struct fake_vfio *fake, unsigned long request, void *argument)
{
    switch (request) {
    case VFIO_GET_API_VERSION:
        return fake->api_version;
    case VFIO_CHECK_EXTENSION:
        return (uintptr_t)argument == VFIO_TYPE1v2_IOMMU && !fake->lacks_type1;
    case VFIO_SET_IOMMU:
        if (!any_group_in_container(fake) || (uintptr_t)argument != VFIO_TYPE1v2_IOMMU)
            return refuse_call(EINVAL);
        fake->has_iommu = true;
        return 0;
    case VFIO_IOMMU_GET_INFO:
        return answer_container(fake, argument);
    case VFIO_IOMMU_MAP_DMA: {
        const struct vfio_iommu_type1_dma_map *map = argument;

        return fake->has_iommu ? add_mapping(fake, map->iova, map->size) : refuse_call(EINVAL);
    }
    case VFIO_IOMMU_UNMAP_DMA: {
        struct vfio_iommu_type1_dma_unmap *unmap = argument;
        uint64_t bytes;
        int result = remove_mappings(fake, unmap->iova, unmap->size, &bytes);

        if (result == 0)
            unmap->size = bytes;
        return result;
    }
    default:
        return refuse_call(ENOTTY);
    }
}

/* --- groups --- */

static int control_group(struct fake_vfio *fake, struct fake_file *file, unsigned long request, void *argument)
{
    switch (request) {
    case VFIO_GROUP_GET_STATUS: {
        struct vfio_group_status *status = argument;

        status->flags = (fake->not_viable ? 0u : VFIO_GROUP_FLAGS_VIABLE) |
                        (fake->in_other_space ? VFIO_GROUP_FLAGS_CONTAINER_SET : 0u);
        return 0;
    }
    case VFIO_GROUP_SET_CONTAINER:
        if (fake->files[*(const int *)argument].role != FAKE_CONTAINER)
            return refuse_call(EINVAL);
        file->in_space = true;
        return 0;
    case VFIO_GROUP_GET_DEVICE_FD:
        assert_true(fake->has_iommu);
        return fake->no_descriptor ? refuse_call(ENODEV) : new_device(fake, file->group);
    default:
        return refuse_call(ENOTTY);
    }
}

/* --- iommufd --- */

static int answer_ranges(struct vfio_uapi_ioas_ranges *ask)
{
    struct vfio_uapi_range *ranges = (struct vfio_uapi_range *)(uintptr_t)ask->allowed_iovas;

    assert_true(ask->num_iovas >= 2);
    ranges[0] = (struct vfio_uapi_range){.start = 0, .last = 0xfedfffff};
    ranges[1] = (struct vfio_uapi_range){.start = 0xfef00000, .last = UINT64_C(0xffffffffff)};
    ask->num_iovas = 2;
    ask->out_iova_alignment = 4096;
    return 0;
}

static int control_iommufd(struct fake_vfio *fake, unsigned long request, void *argument)
{
    switch (request) {
    case VFIO_UAPI_IOAS_ALLOC:
        ((struct vfio_uapi_ioas_alloc *)argument)->out_ioas_id = 3;
        return 0;
    case VFIO_UAPI_IOAS_RANGES:
        return answer_ranges(argument);
    case VFIO_UAPI_IOAS_MAP: {
        const struct vfio_uapi_ioas_map *map = argument;

        assert_int_equal(map->ioas_id, 3);
        assert_true(map->flags & VFIO_UAPI_MAP_FIXED);
        return add_mapping(fake, map->iova, map->length);
    }
    case VFIO_UAPI_IOAS_UNMAP: {
        struct vfio_uapi_ioas_unmap *unmap = argument;
        uint64_t bytes;
        int result = remove_mappings(fake, unmap->iova, unmap->length, &bytes);

        if (result != 0)
            return refuse_call(ENOENT); /* the kernel does not report that a mapping would be cut */
        unmap->length = bytes;
        return bytes ? 0 : refuse_call(ENOENT);
    }
    default:
        return refuse_call(ENOTTY);
    }
}

/* --- functions --- */

struct region_answer {
    struct vfio_region_info info;
    struct list_head sparse;
    struct vfio_region_sparse_mmap_area areas[2];
};

/* BAR 0 can be mapped, and BAR 2 only in two parts, with the interrupt table between them. BAR 4 cannot be mapped. */
static int answer_region(struct fake_vfio *fake, struct vfio_region_info *info)
{
    static const uint64_t bytes[] = {FAKE_BAR_BYTES, 0, FAKE_BAR_BYTES, 0, 256, 0, 65536, 4096};
    struct region_answer answer = {
        .sparse = {.header = {.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP, .version = 1}, .count = 2},
        .areas = {{.offset = 0, .size = 65536}, {.offset = 131072, .size = 65536}},
    };
    uint32_t index = info->index;

    if (index >= sizeof bytes / sizeof bytes[0])
        return refuse_call(EINVAL);
    answer.info = (struct vfio_region_info){
        .argsz = index == 2 ? sizeof answer : sizeof *info,
        .flags = VFIO_REGION_INFO_FLAG_READ | (index == FACET_VFIO_ROM ? 0u : VFIO_REGION_INFO_FLAG_WRITE) |
                 (index == 0 || index == 2 ? VFIO_REGION_INFO_FLAG_MMAP : 0u) |
                 (index == 2 ? VFIO_REGION_INFO_FLAG_CAPS : 0u),
        .index = index,
        .size = bytes[index],
        .offset = FAKE_REGION(index),
    };
    if (info->argsz >= sizeof answer) {
        answer.info.cap_offset = offsetof(struct region_answer, sparse);
        memcpy(info, &answer, sizeof answer);
    } else {
        memcpy(info, &answer, sizeof *info);
    }
    return 0;
}

static int set_interrupts(struct fake_vfio *fake, const struct vfio_irq_set *ask)
{
    if (ask->flags & VFIO_IRQ_SET_ACTION_UNMASK) {
        fake->unmasked++;
        return 0;
    }
    fake->eventfd_kind = (int)ask->index;
    fake->eventfd = -1;
    if (ask->flags & VFIO_IRQ_SET_DATA_EVENTFD) {
        assert_int_equal(ask->argsz, sizeof *ask + ask->count * sizeof(int32_t));
        memcpy(&fake->eventfd, ask->data, sizeof fake->eventfd);
    }
    return 0;
}

static int answer_neighbours(const struct fake_vfio *fake, struct vfio_pci_hot_reset_info *info)
{
    assert_true(info->argsz >= sizeof *info + 2 * sizeof info->devices[0]);
    info->count = fake->hot_reset_group ? 2 : 1;
    info->devices[0] = (struct vfio_pci_dependent_device){.group_id = 7, .bus = 1};
    info->devices[1] = (struct vfio_pci_dependent_device){.group_id = fake->hot_reset_group, .bus = 1, .devfn = 0x10};
    return 0;
}

static int control_device(struct fake_vfio *fake, unsigned long request, void *argument)
{
    switch (request) {
    case VFIO_DEVICE_GET_INFO: {
        struct vfio_device_info *info = argument;

        info->flags = (fake->not_pci ? VFIO_DEVICE_FLAGS_PLATFORM : VFIO_DEVICE_FLAGS_PCI) |
                      (fake->cannot_reset ? 0u : VFIO_DEVICE_FLAGS_RESET);
        info->num_regions = fake->too_many_regions ? UINT32_MAX : 9;
        info->num_irqs = 5;
        return 0;
    }
    case VFIO_DEVICE_GET_REGION_INFO:
        return answer_region(fake, argument);
    case VFIO_DEVICE_GET_IRQ_INFO: {
        struct vfio_irq_info *info = argument;

        if (info->index == VFIO_PCI_ERR_IRQ_INDEX)
            return refuse_call(EINVAL);
        info->count = info->index == VFIO_PCI_MSIX_IRQ_INDEX ? 8 : 1;
        info->flags = VFIO_IRQ_INFO_EVENTFD | (info->index == 0 ? VFIO_IRQ_INFO_AUTOMASKED : 0u);
        return 0;
    }
    case VFIO_DEVICE_SET_IRQS:
        return set_interrupts(fake, argument);
    case VFIO_DEVICE_RESET:
        fake->resets++;
        return 0;
    case VFIO_DEVICE_GET_PCI_HOT_RESET_INFO:
        return answer_neighbours(fake, argument);
    case VFIO_DEVICE_PCI_HOT_RESET:
        fake->bus_resets++;
        return 0;
    case VFIO_UAPI_BIND:
        return fake->bind_errno ? refuse_call(fake->bind_errno) : 0;
    case VFIO_UAPI_ATTACH:
        assert_int_equal(((const struct vfio_uapi_attach *)argument)->pt_id, 3);
        return 0;
    default:
        return refuse_call(ENOTTY);
    }
}

static int control_file(void *data, int fd, unsigned long request, void *argument)
{
    struct fake_vfio *fake = data;
    struct fake_file *file = &fake->files[fd];

    if (call_fails(fake))
        return refuse_call(fake->fail_errno);
    switch (file->role) {
    case FAKE_CONTAINER:
        return control_container(fake, request, argument);
    case FAKE_GROUP:
        return control_group(fake, file, request, argument);
    case FAKE_IOMMUFD:
        return control_iommufd(fake, request, argument);
    case FAKE_DEVICE:
        return control_device(fake, request, argument);
    default:
        return refuse_call(ENOTTY);
    }
}

/* --- the folder --- */

static void run_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void run_shell(const char *format, ...)
{
    char command[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

void fake_vfio_write(struct fake_vfio *fake, const char *path, const char *text)
{
    run_shell("mkdir -p $(dirname %s/%s) && printf '%s' > %s/%s", fake->root, path, text, fake->root, path);
}

void fake_vfio_driver(struct fake_vfio *fake, const char *address, const char *driver)
{
    run_shell("cd %s/sys/bus/pci/devices/%s && rm -f driver && { [ -z '%s' ] || ln -s ../../drivers/%s driver; }",
              fake->root, address, driver ? driver : "", driver ? driver : "");
}

/* Makes a function driven by vfio-pci, in a group or in none. */
#define FUNCTION(address, group)                                                                                       \
    "mkdir -p sys/bus/pci/devices/" address " sys/kernel/iommu_groups/" group "/devices && "                           \
    "ln -s ../../../../kernel/iommu_groups/" group " sys/bus/pci/devices/" address "/iommu_group && "                  \
    "ln -s ../../drivers/vfio-pci sys/bus/pci/devices/" address "/driver && "                                          \
    "touch dev/vfio/" group " sys/kernel/iommu_groups/" group "/devices/" address " && "

static void make_folder(const char *root)
{
    run_shell("cd %s && mkdir -p dev/vfio proc/self && touch dev/vfio/vfio && " /* on every machine with VFIO */
              FUNCTION(FAKE_GPU, "7") FUNCTION(FAKE_SOUND, "7")
                  FUNCTION(FAKE_OTHER, "8") "mkdir -p sys/bus/pci/devices/" FAKE_NO_IOMMU
                                            " && printf 'Name:\\tx\\nVmLck:\\t      16 kB\\nVmPin:\\t       8 kB\\n' > "
                                            "proc/self/status",
              root);
}

static void forget_calls(struct fake_vfio *fake)
{
    char root[sizeof fake->root];
    struct facet_vfio_system system = fake->system;

    memcpy(root, fake->root, sizeof root);
    *fake = (struct fake_vfio){.system = system, .mapping_max = FAKE_MAPPINGS, .fail_errno = EIO};
    memcpy(fake->root, root, sizeof root);
}

/* Closes open descriptors before they fail the test, so that the next test does not inherit them. */
static void check_closed(const struct fake_vfio *fake)
{
    int left = 0;

    for (int fd = 0; fd < FAKE_FILES; fd++) {
        char link[32], target[64] = "";

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "fake-vfio")) {
            print_error("descriptor %d was left open, of role %d\n", fd, fake->files[fd].role);
            close(fd);
            left++;
        }
    }
    assert_int_equal(left, 0);
}

void fake_vfio_open(struct fake_vfio *fake)
{
    char root[sizeof fake->root] = "/tmp/facet-vfio-XXXXXX";

    assert_non_null(mkdtemp(root));
    make_folder(root);
    memcpy(fake->root, root, sizeof root);
    fake->system = (struct facet_vfio_system){
        .root = open(fake->root, O_PATH | O_DIRECTORY | O_CLOEXEC),
        .data = fake,
        .open = open_file,
        .control = control_file,
        .map = map_file,
    };
    assert_true(fake->system.root >= 0);
    forget_calls(fake);
}

void fake_vfio_restart(struct fake_vfio *fake)
{
    check_closed(fake);
    forget_calls(fake);
}

void fake_vfio_close(struct fake_vfio *fake)
{
    close(fake->system.root);
    run_shell("rm -rf %s", fake->root);
    check_closed(fake);
}
