/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the forms of arguments for VM monitors: texts, escaping, refusals. Never: starts a monitor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "../../spec/failing.h"
#include "attach_request.h"

#define UUID "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)

/* Compares all texts, each followed by '|'. */
static void assert_renders(uint32_t form, const struct facet_attach_request *request, const char *expected)
{
    struct facet_attach_texts *texts = NULL;
    struct facet_error error = {0};
    char all[4096] = "";

    enum facet_status status = facet_attach_render(form, request, &texts, &error);
    if (status != FACET_OK)
        fail_msg("%s", error.message);
    for (uint32_t i = 0; facet_attach_texts_at(texts, i); i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s|", facet_attach_texts_at(texts, i));
    }
    facet_attach_texts_destroy(texts);
    assert_string_equal(all, expected);
}

static void assert_refuses(uint32_t form, const struct facet_attach_request *request, enum facet_status expected,
                           const char *fragment)
{
    struct facet_attach_texts *texts = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_attach_render(form, request, &texts, &error), expected);
    assert_null(texts);
    if (!strstr(error.message, fragment))
        fail_msg("'%s' does not say '%s'", error.message, fragment);
}

/* A typical GPU: registers below 4 GiB, memory and a doorbell above, a ROM. */
static const struct facet_pci_bar bars[FACET_PCI_BARS_COUNT] = {
    [0] = {.bytes = 16 * MIB, .is_memory = 1},
    [1] = {.bytes = 32 * GIB, .is_memory = 1, .is_64bit = 1, .is_prefetchable = 1},
    [3] = {.bytes = 32 * MIB, .is_memory = 1, .is_64bit = 1, .is_prefetchable = 1},
    [5] = {.bytes = 128},
    [FACET_PCI_ROM] = {.bytes = MIB / 2, .is_memory = 1},
};

/* --- QEMU --- */

static void a_gpu_and_its_sound_are_one_device(void **state)
{
    const struct facet_attach_function list[] = {
        FUNCTION(AT(0x65, 0, 1)), FUNCTION(AT(0x66, 0, 0)),
        FUNCTION(AT(0x65, 0, 0), .bars = bars, .bar_count = FACET_PCI_BARS_COUNT)};

    assert_renders(
        FACET_ATTACH_QEMU, REQUEST(list),
        "-device|pcie-root-port,id=facet-port1,bus=pcie.0,chassis=1,slot=1,pref64-reserve=64G,mem-reserve=16M|"
        "-device|vfio-pci,host=0000:65:00.0,id=facet-0000-65-00.0,bus=facet-port1,addr=0x0.0,multifunction=on|"
        "-device|vfio-pci,host=0000:65:00.1,id=facet-0000-65-00.1,bus=facet-port1,addr=0x0.1|"
        "-device|pcie-root-port,id=facet-port2,bus=pcie.0,chassis=2,slot=2|"
        "-device|vfio-pci,host=0000:66:00.0,id=facet-0000-66-00.0,bus=facet-port2,addr=0x0.0|");
}

static void functions_without_function_0_are_renumbered(void **state)
{
    const struct facet_attach_function list[] = {FUNCTION(AT(0x65, 0, 3)), FUNCTION(AT(0x65, 0, 1))};

    assert_renders(
        FACET_ATTACH_QEMU, REQUEST(list, .first_port = 9),
        "-device|pcie-root-port,id=facet-port9,bus=pcie.0,chassis=9,slot=9|"
        "-device|vfio-pci,host=0000:65:00.1,id=facet-0000-65-00.1,bus=facet-port9,addr=0x0.0,multifunction=on|"
        "-device|vfio-pci,host=0000:65:00.3,id=facet-0000-65-00.3,bus=facet-port9,addr=0x0.1|");
}

static void virtual_functions_and_mediated_devices_have_a_slot_of_their_own(void **state)
{
    const struct facet_attach_function list[] = {
        FUNCTION(AT(0x65, 0, 4), .flags = FACET_ATTACH_VIRTUAL | FACET_ATTACH_NO_ROM),
        FUNCTION(AT(0x65, 0, 5), .flags = FACET_ATTACH_VIRTUAL),
        FUNCTION(.mdev = UUID, .flags = FACET_ATTACH_NO_DISPLAY),
        FUNCTION(.address = {.domain = 0x10000, .bus = 1}, .port = "mine")};

    assert_renders(FACET_ATTACH_QEMU, REQUEST(list),
                   "-device|pcie-root-port,id=facet-port1,bus=pcie.0,chassis=1,slot=1|"
                   "-device|vfio-pci,host=0000:65:00.4,id=facet-0000-65-00.4,bus=facet-port1,addr=0x0.0,rombar=0|"
                   "-device|pcie-root-port,id=facet-port2,bus=pcie.0,chassis=2,slot=2|"
                   "-device|vfio-pci,host=0000:65:00.5,id=facet-0000-65-00.5,bus=facet-port2,addr=0x0.0|"
                   "-device|pcie-root-port,id=facet-port3,bus=pcie.0,chassis=3,slot=3|"
                   "-device|vfio-pci,sysfsdev=/sys/bus/mdev/devices/" UUID ",id=facet-" UUID
                   ",bus=facet-port3,addr=0x0.0,display=off|"
                   "-device|vfio-pci,sysfsdev=/sys/bus/pci/devices/10000:01:00.0,id=facet-10000-01-00.0,bus=mine,"
                   "addr=0x0.0|");
}

static void every_setting_is_rendered_and_escaped(void **state)
{
    const struct facet_attach_function list[] = {
        FUNCTION(AT(1, 0, 0), .id = "gpu0", .port = "rp1", .fd = 12, .romfile = "/a,b ,c", .clique = 3,
                 .flags = FACET_ATTACH_PRIMARY | FACET_ATTACH_NO_DISPLAY | FACET_ATTACH_CLIQUE)};

    assert_renders(FACET_ATTACH_QEMU,
                   REQUEST(list, .flags = FACET_ATTACH_IOMMUFD, .iommufd_fd = 11,
                           .qemu_version = FACET_ATTACH_VERSION(9, 0), .kernel_version = FACET_ATTACH_VERSION(6, 6)),
                   "-object|iommufd,id=iommufd0,fd=11|"
                   "-device|vfio-pci,fd=12,id=gpu0,bus=rp1,addr=0x0.0,iommufd=iommufd0,x-vga=on,display=off,"
                   "romfile=/a,,b ,,c,x-nv-gpudirect-clique=3|");
}

static void versions_are_checked_against_the_request(void **state)
{
    const struct facet_attach_function list[] = {FUNCTION(AT(1, 0, 0))};

    assert_refuses(FACET_ATTACH_QEMU,
                   REQUEST(list, .flags = FACET_ATTACH_IOMMUFD, .qemu_version = FACET_ATTACH_VERSION(8, 2)),
                   FACET_UNSUPPORTED, "QEMU 8.2 has no iommufd; expected 9.0 or later");
    assert_refuses(FACET_ATTACH_CLOUD,
                   REQUEST(list, .flags = FACET_ATTACH_IOMMUFD, .kernel_version = FACET_ATTACH_VERSION(6, 1)),
                   FACET_UNSUPPORTED, "kernel 6.1 has no iommufd");
    assert_refuses(FACET_ATTACH_LIBVIRT, REQUEST(list, .flags = FACET_ATTACH_IOMMUFD), FACET_UNSUPPORTED,
                   "expected 12.1 or later");
    assert_renders(FACET_ATTACH_QEMU, REQUEST(list, .qemu_version = FACET_ATTACH_VERSION(7, 2)),
                   "-device|pcie-root-port,id=facet-port1,bus=pcie.0,chassis=1,slot=1|"
                   "-device|vfio-pci,host=0000:01:00.0,id=facet-0000-01-00.0,bus=facet-port1,addr=0x0.0|");
}

static void windows_are_powers_of_two(void **state)
{
    uint64_t prefetchable = 1, other = 1;
    struct facet_pci_bar huge[2] = {{.bytes = UINT64_MAX, .is_memory = 1}, {.bytes = 5, .is_memory = 1}};

    facet_attach_windows(bars, FACET_PCI_BARS_COUNT, &prefetchable, &other);
    assert_int_equal(prefetchable, 64 * GIB); /* 32 GiB and 32 MiB, rounded up to a power of two */
    assert_int_equal(other, 16 * MIB);
    facet_attach_windows(bars, 2, &prefetchable, &other);
    assert_int_equal(prefetchable, 32 * GIB);
    facet_attach_windows(NULL, 0, &prefetchable, &other);
    assert_int_equal(prefetchable + other, 0);
    facet_attach_windows(huge, 2, &prefetchable, &other);
    assert_true(other >= UINT64_C(1) << 63);
}

/* --- libvirt and Cloud Hypervisor --- */

static void libvirt_has_an_element_for_each_function(void **state)
{
    const struct facet_attach_function list[] = {
        FUNCTION(.address = {.domain = 2, .bus = 0x65, .device = 0x1f, .function = 7}, .id = "gpu.0-a_b",
                 .romfile = "/a<b>&'\"c"),
        FUNCTION(.mdev = UUID, .flags = FACET_ATTACH_NO_DISPLAY | FACET_ATTACH_NO_ROM)};

    assert_renders(FACET_ATTACH_LIBVIRT,
                   REQUEST(list, .flags = FACET_ATTACH_MANAGED | FACET_ATTACH_IOMMUFD,
                           .libvirt_version = FACET_ATTACH_VERSION(12, 1)),
                   "<hostdev mode='subsystem' type='pci' managed='yes'>\n"
                   "  <driver name='vfio' iommufd='yes'/>\n"
                   "  <source>\n"
                   "    <address domain='0x0002' bus='0x65' slot='0x1f' function='0x7'/>\n"
                   "  </source>\n"
                   "  <alias name='ua-gpu_0-a_b'/>\n"
                   "  <rom file='/a&lt;b&gt;&amp;&apos;&quot;c'/>\n"
                   "</hostdev>\n|"
                   "<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci' display='off'>\n"
                   "  <source>\n"
                   "    <address uuid='" UUID "'/>\n"
                   "  </source>\n"
                   "  <alias name='ua-facet-" UUID "'/>\n"
                   "  <rom bar='off'/>\n"
                   "</hostdev>\n|");
}

static void cloud_hypervisor_has_one_option_with_all_functions(void **state)
{
    const struct facet_attach_function list[] = {
        FUNCTION(AT(0x65, 0, 0), .flags = FACET_ATTACH_GUEST_IOMMU | FACET_ATTACH_CLIQUE), FUNCTION(.mdev = UUID)};

    assert_renders(FACET_ATTACH_CLOUD, REQUEST(list, .segment = 1),
                   "--platform|num_pci_segments=2|--device|"
                   "path=/sys/bus/pci/devices/0000:65:00.0,id=facet-0000-65-00.0,iommu=on,pci_segment=1,"
                   "x_nv_gpudirect_clique=0|"
                   "path=/sys/bus/mdev/devices/" UUID ",id=facet-" UUID ",pci_segment=1|");
    assert_renders(FACET_ATTACH_CLOUD_ADD, REQUEST(list, .segment = 1),
                   "{\"path\":\"/sys/bus/pci/devices/0000:65:00.0\",\"id\":\"facet-0000-65-00.0\",\"iommu\":true,"
                   "\"pci_segment\":1,\"x_nv_gpudirect_clique\":0}|"
                   "{\"path\":\"/sys/bus/mdev/devices/" UUID "\",\"id\":\"facet-" UUID "\",\"pci_segment\":1}|");
    assert_renders(FACET_ATTACH_CLOUD_REMOVE, REQUEST(list),
                   "{\"id\":\"facet-0000-65-00.0\"}|{\"id\":\"facet-" UUID "\"}|");
}

/* --- refusals --- */

static void wrong_requests_are_refused_in_every_form(void **state)
{
    const struct {
        struct facet_attach_function list[2];
        enum facet_status status;
        const char *fragment;
    } cases[] = {
        {{FUNCTION(AT(1, 0, 0)), FUNCTION(AT(1, 0, 0), .id = "other")}, FACET_INVALID_ARGUMENT, "named twice"},
        {{FUNCTION(AT(1, 0, 0), .id = "a"), FUNCTION(AT(2, 0, 0), .id = "a")}, FACET_INVALID_ARGUMENT, "named twice"},
        {{FUNCTION(AT(1, 32, 0)), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "device 32"},
        {{FUNCTION(AT(1, 0, 8)), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "function 8"},
        {{FUNCTION(AT(1, 0, 0), .id = "a,b"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "id 'a,b'"},
        {{FUNCTION(AT(1, 0, 0), .id = ""), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "id ''"},
        {{FUNCTION(AT(1, 0, 0), .id = "0a"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "id '0a'"},
        {{FUNCTION(AT(1, 0, 0), .port = "r p"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "port 'r p'"},
        {{FUNCTION(.mdev = "x"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "mdev 'x'"},
        {{FUNCTION(.mdev = UUID "0"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "expected a UUID"},
        {{FUNCTION(AT(1, 0, 0), .clique = 16), FUNCTION(AT(2, 0, 0))}, FACET_OUT_OF_RANGE, "clique 16"},
        {{FUNCTION(AT(1, 0, 0), .fd = -1), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "fd -1"},
        {{FUNCTION(AT(1, 0, 0), .fd = 5), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "with iommufd only"},
        {{FUNCTION(AT(1, 0, 0), .romfile = "a\nb"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "romfile"},
        {{FUNCTION(AT(1, 0, 0), .romfile = "a\xff"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "in UTF-8"},
        {{FUNCTION(AT(1, 0, 0), .romfile = "a\xc2\x9b"), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "in UTF-8"},
        {{FUNCTION(AT(1, 0, 0), .romfile = ""), FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "romfile"},
        {{FUNCTION(AT(1, 0, 0), .romfile = "a", .flags = FACET_ATTACH_NO_ROM), FUNCTION(AT(2, 0, 0))},
         FACET_INVALID_ARGUMENT,
         "hidden"},
        {{FUNCTION(AT(1, 0, 0), .port = "a"), FUNCTION(AT(1, 0, 1), .port = "b")},
         FACET_INVALID_ARGUMENT,
         "one device"},
        {{FUNCTION(AT(1, 0, 0), .port = "a"), FUNCTION(AT(2, 0, 0), .port = "a")},
         FACET_INVALID_ARGUMENT,
         "for two devices"},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_PRIMARY), FUNCTION(AT(2, 0, 0), .flags = FACET_ATTACH_PRIMARY)},
         FACET_INVALID_ARGUMENT,
         "both primary"},
        {{{.size = 1}, FUNCTION(AT(2, 0, 0))}, FACET_INVALID_ARGUMENT, "size"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t form = 0; form < FACET_ATTACH_FORMS; form++)
            assert_refuses(form, REQUEST(cases[i].list), cases[i].status, cases[i].fragment);
}

static void options_that_a_form_cannot_express_are_refused(void **state)
{
    const struct {
        struct facet_attach_function list[1];
        uint32_t form;
    } cases[] = {
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_GUEST_IOMMU)}, FACET_ATTACH_QEMU},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_GUEST_IOMMU)}, FACET_ATTACH_LIBVIRT},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_PRIMARY)}, FACET_ATTACH_LIBVIRT},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_CLIQUE)}, FACET_ATTACH_LIBVIRT},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_NO_DISPLAY)}, FACET_ATTACH_LIBVIRT},
        {{FUNCTION(AT(1, 0, 0), .port = "rp1")}, FACET_ATTACH_LIBVIRT},
        {{FUNCTION(AT(1, 0, 0), .port = "rp1")}, FACET_ATTACH_CLOUD},
        {{FUNCTION(AT(1, 0, 0), .romfile = "/rom")}, FACET_ATTACH_CLOUD},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_NO_ROM)}, FACET_ATTACH_CLOUD_ADD},
        {{FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_PRIMARY)}, FACET_ATTACH_CLOUD_ADD},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refuses(cases[i].form, REQUEST(cases[i].list), FACET_UNSUPPORTED, "cannot be expressed for");
}

static void numbers_out_of_bounds_are_refused(void **state)
{
    const struct facet_attach_function list[] = {FUNCTION(AT(1, 0, 0)), FUNCTION(AT(2, 0, 0))};
    struct facet_attach_request none = *REQUEST(list), many = *REQUEST(list);

    none.count = 0;
    many.count = FACET_ATTACH_FUNCTIONS + 1;
    assert_refuses(FACET_ATTACH_QEMU, &none, FACET_OUT_OF_RANGE, "count 0");
    assert_refuses(FACET_ATTACH_QEMU, &many, FACET_OUT_OF_RANGE, "count 33");
    assert_refuses(FACET_ATTACH_QEMU, REQUEST(list, .first_port = 255), FACET_OUT_OF_RANGE, "first_port 255");
    assert_refuses(FACET_ATTACH_QEMU, REQUEST(list, .first_port = 256), FACET_OUT_OF_RANGE, "first_port 256");
    assert_refuses(FACET_ATTACH_CLOUD, REQUEST(list, .segment = 16), FACET_OUT_OF_RANGE, "segment 16");
    assert_refuses(FACET_ATTACH_QEMU, REQUEST(list, .iommufd_fd = 3), FACET_INVALID_ARGUMENT, "only with iommufd");
    assert_refuses(FACET_ATTACH_FORMS, REQUEST(list), FACET_INVALID_ARGUMENT, "form");
    assert_refuses(FACET_ATTACH_QEMU, NULL, FACET_INVALID_ARGUMENT, "request");
    assert_string_equal(facet_attach_form_name(FACET_ATTACH_CLOUD_ADD), "cloud_hypervisor_add");
    assert_null(facet_attach_form_name(FACET_ATTACH_FORMS));
}

/* --- memory --- */

static bool render_once(void *context)
{
    const struct facet_attach_function list[] = {FUNCTION(AT(1, 0, 0), .flags = FACET_ATTACH_CLIQUE),
                                                 FUNCTION(AT(1, 0, 1)), FUNCTION(.mdev = UUID)};
    struct facet_attach_texts *texts = NULL;
    struct facet_error error = {0};

    enum facet_status status = facet_attach_render(
        *(uint32_t *)context,
        REQUEST(list, .flags = FACET_ATTACH_IOMMUFD, .libvirt_version = FACET_ATTACH_VERSION(12, 1)), &texts, &error);
    if (status != FACET_OK) {
        assert_int_equal(status, FACET_NO_MEMORY);
        assert_null(texts);
        return false;
    }
    facet_attach_texts_destroy(texts);
    return true;
}

/* libvirt is left out, because it cannot express the clique of the request. */
static void a_failed_allocation_is_reported_by_every_form(void **state)
{
    failing_begin();
    for (uint32_t form = 0; form < FACET_ATTACH_FORMS; form++)
        if (form != FACET_ATTACH_LIBVIRT)
            assert_true(failing_loop(render_once, &form) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_and_its_sound_are_one_device),
        cmocka_unit_test(functions_without_function_0_are_renumbered),
        cmocka_unit_test(virtual_functions_and_mediated_devices_have_a_slot_of_their_own),
        cmocka_unit_test(every_setting_is_rendered_and_escaped),
        cmocka_unit_test(versions_are_checked_against_the_request),
        cmocka_unit_test(windows_are_powers_of_two),
        cmocka_unit_test(libvirt_has_an_element_for_each_function),
        cmocka_unit_test(cloud_hypervisor_has_one_option_with_all_functions),
        cmocka_unit_test(wrong_requests_are_refused_in_every_form),
        cmocka_unit_test(options_that_a_form_cannot_express_are_refused),
        cmocka_unit_test(numbers_out_of_bounds_are_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_by_every_form),
    };

    return cmocka_run_group_tests_name("passthrough/render", tests, NULL, NULL);
}
