/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the published layout of the provider ABI, written out once more by hand. A change that breaks this test breaks
 * every provider that was ever built: append members instead, and raise the minor version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <facet/provider.h>

#define AT(type, member, offset) assert_int_equal(offsetof(struct type, member), offset)
#define SIZE(type, bytes)        assert_int_equal(sizeof(struct type), bytes)

static void device_keeps_its_layout(void **state)
{
    AT(facet_device_info, size, 0);
    AT(facet_device_info, index, 4);
    AT(facet_device_info, valid, 8);
    AT(facet_device_info, uuid, 16);
    AT(facet_device_info, name, 80);
    AT(facet_device_info, vendor, 208);
    AT(facet_device_info, driver_version, 272);
    AT(facet_device_info, address, 400);
    AT(facet_device_info, pci_address, 656);
    AT(facet_device_info, kind, 672);
    AT(facet_device_info, modes, 676);
    AT(facet_device_info, memory_bytes, 680);
    AT(facet_device_info, max_alloc_bytes, 688);
    AT(facet_device_info, compute_units, 696);
    AT(facet_device_info, clock_mhz, 700);
    AT(facet_device_info, numa_node, 704);
    AT(facet_device_info, max_partitions, 708);
    AT(facet_device_info, capabilities, 712);
    AT(facet_device_info, peak_gflops, 720);
    AT(facet_device_info, memory_bandwidth_mbps, 728);
    AT(facet_device_info, pcie_generation, 732);
    AT(facet_device_info, pcie_width, 734);
    AT(facet_device_info, mode_group, 736);
    AT(facet_device_info, max_workers, 740);
    SIZE(facet_device_info, 744);

    AT(facet_event, size, 0);
    AT(facet_event, kind, 4);
    AT(facet_event, sequence, 8);
    AT(facet_event, timestamp_ns, 16);
    AT(facet_event, value, 24);
    AT(facet_event, device, 32);
    AT(facet_event, link, 36);
    AT(facet_event, uuid, 40);
    AT(facet_event, message, 104);
    SIZE(facet_event, 200);

    AT(facet_device_ops, size, 0);
    AT(facet_device_ops, open, 8);
    AT(facet_device_ops, close, 16);
    AT(facet_device_ops, list, 24);
    AT(facet_device_ops, health, 32);
    AT(facet_device_ops, properties, 40);
    AT(facet_device_ops, nodes, 48);
    AT(facet_device_ops, links, 56);
    AT(facet_device_ops, events, 64);
    SIZE(facet_device_ops, 72);
}

static void topology_keeps_its_layout(void **state)
{
    AT(facet_topology_node, size, 0);
    AT(facet_topology_node, index, 4);
    AT(facet_topology_node, kind, 8);
    AT(facet_topology_node, valid, 12);
    AT(facet_topology_node, device, 16);
    AT(facet_topology_node, numa_node, 20);
    AT(facet_topology_node, uuid, 24);
    AT(facet_topology_node, name, 88);
    AT(facet_topology_node, pci_address, 152);
    SIZE(facet_topology_node, 168);

    AT(facet_topology_link, size, 0);
    AT(facet_topology_link, a, 4);
    AT(facet_topology_link, b, 8);
    AT(facet_topology_link, type, 12);
    AT(facet_topology_link, level, 16);
    AT(facet_topology_link, valid, 20);
    AT(facet_topology_link, lanes, 24);
    AT(facet_topology_link, up, 28);
    AT(facet_topology_link, bandwidth_mbps, 32);
    AT(facet_topology_link, latency_ns, 40);
    SIZE(facet_topology_link, 48);
}

static void partition_keeps_its_layout(void **state)
{
    AT(facet_partition_template, size, 0);
    AT(facet_partition_template, valid, 4);
    AT(facet_partition_template, id, 8);
    AT(facet_partition_template, memory_bytes, 40);
    AT(facet_partition_template, overhead_bytes, 48);
    AT(facet_partition_template, compute_units, 56);
    AT(facet_partition_template, compute_milli, 60);
    AT(facet_partition_template, length, 64);
    AT(facet_partition_template, max_count, 68);
    SIZE(facet_partition_template, 72);

    AT(facet_partition_placement, size, 0);
    AT(facet_partition_placement, start, 4);
    AT(facet_partition_placement, length, 8);
    AT(facet_partition_placement, free, 12);
    SIZE(facet_partition_placement, 16);

    AT(facet_partition_info, size, 0);
    AT(facet_partition_info, valid, 4);
    AT(facet_partition_info, device, 8);
    AT(facet_partition_info, start, 12);
    AT(facet_partition_info, length, 16);
    AT(facet_partition_info, in_use, 20);
    AT(facet_partition_info, uuid, 24);
    AT(facet_partition_info, template_id, 88);
    AT(facet_partition_info, address, 120);
    AT(facet_partition_info, memory_bytes, 376);
    AT(facet_partition_info, overhead_bytes, 384);
    AT(facet_partition_info, compute_units, 392);
    AT(facet_partition_info, compute_milli, 396);
    SIZE(facet_partition_info, 400);

    AT(facet_partition_ops, size, 0);
    AT(facet_partition_ops, templates, 8);
    AT(facet_partition_ops, placements, 16);
    AT(facet_partition_ops, create, 24);
    AT(facet_partition_ops, list, 32);
    AT(facet_partition_ops, destroy, 40);
    SIZE(facet_partition_ops, 48);
}

static void limit_keeps_its_layout(void **state)
{
    AT(facet_worker_limit, size, 0);
    AT(facet_worker_limit, valid, 4);
    AT(facet_worker_limit, device, 8);
    AT(facet_worker_limit, compute_units, 12);
    AT(facet_worker_limit, compute_milli, 16);
    AT(facet_worker_limit, reserved, 20);
    AT(facet_worker_limit, memory_bytes, 24);
    AT(facet_worker_limit, worker, 32);
    AT(facet_worker_limit, address, 96);
    SIZE(facet_worker_limit, 352);

    AT(facet_limit_ops, size, 0);
    AT(facet_limit_ops, set_memory, 8);
    AT(facet_limit_ops, set_compute, 16);
    AT(facet_limit_ops, get, 24);
    AT(facet_limit_ops, list, 32);
    AT(facet_limit_ops, clear, 40);
    SIZE(facet_limit_ops, 48);
}

static void metrics_keeps_its_layout(void **state)
{
    AT(facet_device_metrics, size, 0);
    AT(facet_device_metrics, device, 4);
    AT(facet_device_metrics, valid, 8);
    AT(facet_device_metrics, timestamp_ns, 16);
    AT(facet_device_metrics, power_mw, 24);
    AT(facet_device_metrics, energy_mj, 32);
    AT(facet_device_metrics, temperature_mc, 40);
    AT(facet_device_metrics, clock_mhz, 44);
    AT(facet_device_metrics, memory_used_bytes, 48);
    AT(facet_device_metrics, pcie_rx_bytes, 56);
    AT(facet_device_metrics, pcie_tx_bytes, 64);
    AT(facet_device_metrics, busy_ns, 72);
    AT(facet_device_metrics, compute_active_milli, 80);
    AT(facet_device_metrics, tensor_active_milli, 84);
    AT(facet_device_metrics, memory_active_milli, 88);
    AT(facet_device_metrics, encoder_active_milli, 92);
    AT(facet_device_metrics, decoder_active_milli, 96);
    AT(facet_device_metrics, throttle, 100);
    AT(facet_device_metrics, ecc_corrected, 104);
    AT(facet_device_metrics, ecc_uncorrected, 112);
    SIZE(facet_device_metrics, 120);

    AT(facet_process_metrics, size, 0);
    AT(facet_process_metrics, device, 4);
    AT(facet_process_metrics, pid, 8);
    AT(facet_process_metrics, valid, 12);
    AT(facet_process_metrics, timestamp_ns, 16);
    AT(facet_process_metrics, memory_used_bytes, 24);
    AT(facet_process_metrics, memory_reserved_bytes, 32);
    AT(facet_process_metrics, busy_ns, 40);
    AT(facet_process_metrics, compute_milli, 48);
    AT(facet_process_metrics, units_active, 52);
    AT(facet_process_metrics, worker, 56);
    AT(facet_process_metrics, partition_uuid, 120);
    SIZE(facet_process_metrics, 184);

    AT(facet_link_metrics, size, 0);
    AT(facet_link_metrics, link, 4);
    AT(facet_link_metrics, type, 8);
    AT(facet_link_metrics, valid, 12);
    AT(facet_link_metrics, timestamp_ns, 16);
    AT(facet_link_metrics, rx_bytes, 24);
    AT(facet_link_metrics, tx_bytes, 32);
    AT(facet_link_metrics, errors, 40);
    SIZE(facet_link_metrics, 48);

    AT(facet_metrics_ops, size, 0);
    AT(facet_metrics_ops, device, 8);
    AT(facet_metrics_ops, processes, 16);
    AT(facet_metrics_ops, links, 24);
    SIZE(facet_metrics_ops, 32);
}

static void container_keeps_its_layout(void **state)
{
    AT(facet_container_item, size, 0);
    AT(facet_container_item, kind, 4);
    AT(facet_container_item, flags, 8);
    AT(facet_container_item, reserved, 12);
    AT(facet_container_item, host, 16);
    AT(facet_container_item, guest, 528);
    SIZE(facet_container_item, 1040);

    AT(facet_container_ops, size, 0);
    AT(facet_container_ops, items, 8);
    SIZE(facet_container_ops, 16);
}

static void snapshot_keeps_its_layout(void **state)
{
    AT(facet_snapshot_ops, size, 0);
    AT(facet_snapshot_ops, snapshot, 8);
    AT(facet_snapshot_ops, resume, 16);
    AT(facet_snapshot_ops, snapshot_processes, 24);
    AT(facet_snapshot_ops, resume_processes, 32);
    SIZE(facet_snapshot_ops, 40);
}

static void memory_keeps_its_layout(void **state)
{
    AT(facet_memory_info, size, 0);
    AT(facet_memory_info, page_bytes, 4);
    AT(facet_memory_info, total_bytes, 8);
    AT(facet_memory_info, used_bytes, 16);
    SIZE(facet_memory_info, 24);

    AT(facet_memory_ops, size, 0);
    AT(facet_memory_ops, create_context, 8);
    AT(facet_memory_ops, destroy_context, 16);
    AT(facet_memory_ops, info, 24);
    AT(facet_memory_ops, alloc, 32);
    AT(facet_memory_ops, free, 40);
    AT(facet_memory_ops, reserve, 48);
    AT(facet_memory_ops, release, 56);
    AT(facet_memory_ops, create_pages, 64);
    AT(facet_memory_ops, destroy_pages, 72);
    AT(facet_memory_ops, map, 80);
    AT(facet_memory_ops, unmap, 88);
    AT(facet_memory_ops, write, 96);
    AT(facet_memory_ops, read, 104);
    AT(facet_memory_ops, copy, 112);
    AT(facet_memory_ops, fill, 120);
    AT(facet_memory_ops, share_pages, 128);
    AT(facet_memory_ops, move, 136);
    SIZE(facet_memory_ops, 144);
}

static void execution_keeps_its_layout(void **state)
{
    AT(facet_launch, size, 0);
    AT(facet_launch, argument_bytes, 4);
    AT(facet_launch, module, 8);
    AT(facet_launch, grid, 16);
    AT(facet_launch, group, 28);
    AT(facet_launch, local_bytes, 40);
    AT(facet_launch, dimensions, 44);
    AT(facet_launch, kernel, 48);
    AT(facet_launch, offset, 112);
    AT(facet_launch, reserved, 124);
    SIZE(facet_launch, 128);

    AT(facet_stream_state, size, 0);
    AT(facet_stream_state, failed, 4);
    AT(facet_stream_state, launched, 8);
    AT(facet_stream_state, completed, 16);
    AT(facet_stream_state, busy_ns, 24);
    AT(facet_stream_state, begun, 32);
    SIZE(facet_stream_state, 40);

    AT(facet_execution_ops, size, 0);
    AT(facet_execution_ops, load, 8);
    AT(facet_execution_ops, unload, 16);
    AT(facet_execution_ops, create_stream, 24);
    AT(facet_execution_ops, destroy_stream, 32);
    AT(facet_execution_ops, launch, 40);
    AT(facet_execution_ops, synchronize, 48);
    AT(facet_execution_ops, query, 56);
    AT(facet_execution_ops, cancel, 64);
    AT(facet_execution_ops, write, 72);
    AT(facet_execution_ops, copy, 80);
    AT(facet_execution_ops, fill, 88);
    AT(facet_execution_ops, set_share, 96);
    AT(facet_execution_ops, set_priority, 104);
    AT(facet_execution_ops, records, 112);
    AT(facet_execution_ops, set_bounds, 120);
    AT(facet_execution_ops, pause, 128);
    AT(facet_execution_ops, wait, 136);
    AT(facet_execution_ops, cancel_launch, 144);
    AT(facet_execution_ops, set_policy, 152);
    SIZE(facet_execution_ops, 160);

    AT(facet_launch_record, size, 0);
    AT(facet_launch_record, status, 4);
    AT(facet_launch_record, sequence, 8);
    AT(facet_launch_record, queued_ns, 16);
    AT(facet_launch_record, start_ns, 24);
    AT(facet_launch_record, end_ns, 32);
    AT(facet_launch_record, busy_ns, 40);
    AT(facet_launch_record, groups, 48);
    AT(facet_launch_record, longest_ns, 56);
    AT(facet_launch_record, units, 64);
    AT(facet_launch_record, preemptions, 68);
    AT(facet_launch_record, kernel, 72);
    SIZE(facet_launch_record, 136);
}

static void operands_keep_their_layout(void **state)
{
    AT(facet_gemm, a, 0);
    AT(facet_gemm, b, 8);
    AT(facet_gemm, c, 16);
    AT(facet_gemm, m, 24);
    AT(facet_gemm, n, 32);
    AT(facet_gemm, k, 40);
    AT(facet_gemm, lead_a, 48);
    AT(facet_gemm, lead_b, 56);
    AT(facet_gemm, lead_c, 64);
    AT(facet_gemm, batch, 72);
    AT(facet_gemm, stride_a, 80);
    AT(facet_gemm, stride_b, 88);
    AT(facet_gemm, stride_c, 96);
    AT(facet_gemm, alpha, 104);
    AT(facet_gemm, beta, 108);
    SIZE(facet_gemm, 112);

    AT(facet_convolution, input, 0);
    AT(facet_convolution, filter, 8);
    AT(facet_convolution, output, 16);
    AT(facet_convolution, bias, 24);
    AT(facet_convolution, batch, 32);
    AT(facet_convolution, in_channels, 40);
    AT(facet_convolution, out_channels, 48);
    AT(facet_convolution, height, 56);
    AT(facet_convolution, width, 64);
    AT(facet_convolution, kernel, 72);
    AT(facet_convolution, stride, 88);
    AT(facet_convolution, padding, 104);
    AT(facet_convolution, dilation, 120);
    AT(facet_convolution, groups, 136);
    SIZE(facet_convolution, 144);

    AT(facet_activation, input, 0);
    AT(facet_activation, output, 8);
    AT(facet_activation, batch, 16);
    AT(facet_activation, channels, 24);
    AT(facet_activation, height, 32);
    AT(facet_activation, width, 40);
    AT(facet_activation, kind, 48);
    AT(facet_activation, alpha, 52);
    SIZE(facet_activation, 56);
}

static void normalization_and_attention_keep_their_layout(void **state)
{
    AT(facet_normalization, input, 0);
    AT(facet_normalization, output, 8);
    AT(facet_normalization, scale, 16);
    AT(facet_normalization, bias, 24);
    AT(facet_normalization, mean, 32);
    AT(facet_normalization, variance, 40);
    AT(facet_normalization, batch, 48);
    AT(facet_normalization, channels, 56);
    AT(facet_normalization, height, 64);
    AT(facet_normalization, width, 72);
    AT(facet_normalization, epsilon, 80);
    AT(facet_normalization, reserved, 84);
    SIZE(facet_normalization, 88);

    AT(facet_attention, q, 0);
    AT(facet_attention, k, 8);
    AT(facet_attention, v, 16);
    AT(facet_attention, output, 24);
    AT(facet_attention, batch, 32);
    AT(facet_attention, heads, 40);
    AT(facet_attention, queries, 48);
    AT(facet_attention, keys, 56);
    AT(facet_attention, dimension, 64);
    AT(facet_attention, scale, 72);
    AT(facet_attention, reserved, 76);
    SIZE(facet_attention, 80);
}

static void math_keeps_its_layout(void **state)
{
    AT(facet_math, size, 0);
    AT(facet_math, operation, 4);
    AT(facet_math, type, 8);
    AT(facet_math, flags, 12);
    AT(facet_math, of, 16);
    AT(facet_math, of.gemm, 16);
    AT(facet_math, of.convolution, 16);
    AT(facet_math, of.activation, 16);
    AT(facet_math, of.normalization, 16);
    AT(facet_math, of.attention, 16);
    SIZE(facet_math, 272);

    AT(facet_math_support, size, 0);
    AT(facet_math_support, types, 4);
    AT(facet_math_support, tensor_types, 24);
    AT(facet_math_support, mixed, 28);
    AT(facet_math_support, library, 32);
    SIZE(facet_math_support, 96);

    AT(facet_math_ops, size, 0);
    AT(facet_math_ops, support, 8);
    AT(facet_math_ops, run, 16);
    SIZE(facet_math_ops, 24);
}

static void the_provider_keeps_its_layout(void **state)
{
    AT(facet_provider_host, size, 0);
    AT(facet_provider_host, abi_major, 4);
    AT(facet_provider_host, abi_minor, 6);
    AT(facet_provider_host, error, 8);
    SIZE(facet_provider_host, 16);

    AT(facet_provider, size, 0);
    AT(facet_provider, abi_major, 4);
    AT(facet_provider, abi_minor, 6);
    AT(facet_provider, name, 8);
    AT(facet_provider, version, 16);
    AT(facet_provider, description, 24);
    AT(facet_provider, traits, 32);
    AT(facet_provider, device, 40);
    AT(facet_provider, partition, 48);
    AT(facet_provider, limit, 56);
    AT(facet_provider, metrics, 64);
    AT(facet_provider, container, 72);
    AT(facet_provider, snapshot, 80);
    AT(facet_provider, memory, 88);
    AT(facet_provider, execution, 96);
    AT(facet_provider, math, 104);
    SIZE(facet_provider, 112);
}

/* Providers fill in struct facet_error, so it is part of the ABI too. */
static void the_error_keeps_its_layout(void **state)
{
    AT(facet_error, status, 0);
    AT(facet_error, argument, 4);
    AT(facet_error, message, 36);
    SIZE(facet_error, 396);
}

static void published_constants_keep_their_values(void **state)
{
    assert_int_equal(FACET_PROVIDER_ABI_MAJOR, 1);
    assert_int_equal(FACET_PROVIDER_ABI_MINOR, 4);
    assert_int_equal(FACET_PROVIDER_SIZE_1_0, 48);
    assert_int_equal(FACET_DEVICE_ACCELERATOR, 4);
    assert_int_equal(FACET_DEVICE_HAS_MAX_PARTITIONS, 1 << 6);
    assert_int_equal(FACET_DEVICE_HAS_MAX_WORKERS, 1 << 10);
    assert_int_equal(FACET_CAN_PARTITION, 1 << 0);
    assert_int_equal(FACET_CAN_REMOTE, 1 << 13);
    assert_int_equal(FACET_CAN_ENQUEUE, 1 << 14);
    assert_int_equal(FACET_CAN_SHARE, 1 << 15);
    assert_int_equal(FACET_CAN_RECORD, 1 << 16);
    assert_int_equal(FACET_CAN_SHARE_PAGES, 1 << 17);
    assert_int_equal(FACET_CAN_MOVE_PAGES, 1 << 18);
    assert_int_equal(FACET_CAN_CONTROL, 1 << 19);
    assert_int_equal(FACET_CAN_SCHEDULE, 1 << 20);
    assert_int_equal(FACET_CAN_MATH, 1 << 21);
    assert_int_equal(FACET_SCHEDULE_FIFO, 3);
    assert_int_equal(FACET_MATH_ATTENTION, FACET_MATH_KINDS - 1);
    assert_int_equal(FACET_MATH_INT8, FACET_MATH_TYPES - 1);
    assert_int_equal(FACET_MATH_MIXED, 1 << 1);
    assert_int_equal(FACET_MATH_TRANSPOSE_A, 1 << 8);
    assert_int_equal(FACET_MATH_CAUSAL, 1 << 12);
    assert_int_equal(FACET_ACTIVATION_SOFTMAX, 8);
    assert_int_equal(FACET_HEALTH_FAILED, 3);
    assert_int_equal(FACET_EVENT_VENDOR_ERROR, 7);
    assert_int_equal(FACET_NODE_SOCKET, 4);
    assert_int_equal(FACET_LINK_VENDOR, 9);
    assert_int_equal(FACET_LEVEL_SYSTEM, 6);
    assert_int_equal(FACET_CONTAINER_ENVIRONMENT, 3);
    assert_int_equal(FACET_METRIC_ECC_UNCORRECTED, 1 << 15);
    assert_int_equal(FACET_PROCESS_HAS_UNITS, 1 << 4);
    assert_int_equal(FACET_PLACEMENT_ANY, UINT32_MAX);
    assert_int_equal(FACET_WORKER_SIZE, 64);
    assert_int_equal(FACET_PROVIDER_SIMULATED, 1);
    assert_int_equal(FACET_PROVIDER_TEMPLATE, 2);
    assert_int_equal(FACET_TOO_SMALL, -7);
    assert_int_equal(FACET_ABI_MISMATCH, -301);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_keeps_its_layout),
        cmocka_unit_test(topology_keeps_its_layout),
        cmocka_unit_test(partition_keeps_its_layout),
        cmocka_unit_test(limit_keeps_its_layout),
        cmocka_unit_test(metrics_keeps_its_layout),
        cmocka_unit_test(container_keeps_its_layout),
        cmocka_unit_test(snapshot_keeps_its_layout),
        cmocka_unit_test(memory_keeps_its_layout),
        cmocka_unit_test(execution_keeps_its_layout),
        cmocka_unit_test(the_provider_keeps_its_layout),
        cmocka_unit_test(operands_keep_their_layout),
        cmocka_unit_test(normalization_and_attention_keep_their_layout),
        cmocka_unit_test(math_keeps_its_layout),
        cmocka_unit_test(the_error_keeps_its_layout),
        cmocka_unit_test(published_constants_keep_their_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
