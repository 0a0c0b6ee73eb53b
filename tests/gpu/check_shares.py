# SPDX-License-Identifier: Apache-2.0
"""Tenants get the shares that they requested; the shares that the driver's own time-slicing gives are recorded, too.

Owns: the shares of two to four tenants, and the limits of a tenant that is alone. A share is measured by counting
completed kernels of equal work.
Never: knows how Facet enforces shares.
"""
import statistics
import time

from machine import Machine
from suite import check, must

KERNEL_US, DEPTH = 1000, 8
SETTLE_BINS, BINS_A_SECOND = 10, 10  # a tenant counts in bins of 100 ms; the first ones are not used
START_S, START_S_FAKE = 3, 1  # time for all tenants to make a context and load the kernel
REQUESTED = {2: (70, 30), 3: (50, 30, 20), 4: (40, 30, 20, 10)}
# The most percentage points by which the mean of all seconds may differ from the request. The aim is 1, and the results
# have the measured value. A fake device is only as exact as the load of the machine allows.
TOLERANCE_POINTS, TOLERANCE_POINTS_FAKE = 5, 15


def steps(machine: Machine):
    """The steps of a kernel that takes KERNEL_US alone. A fake device reads the time from the kernel's name."""
    return str(machine.run_json(machine.outside_vgpu(machine.tenant("calibrate", str(KERNEL_US))))["steps"])


def spin(machine, work, start_ns):
    seconds = max(round(machine.options.seconds), 1) + SETTLE_BINS // BINS_A_SECOND
    return machine.tenant("spin", str(seconds), str(KERNEL_US), work, str(DEPTH), str(start_ns))


def kernels_by_second(machine, commands_of):
    """For each second, the numbers of kernels that the tenants completed: a list of lists."""
    start_ns = time.monotonic_ns() + (START_S_FAKE if machine.is_fake else START_S) * 10**9
    outputs = machine.run_json_together(commands_of(start_ns))
    bins = [output["bins"][SETTLE_BINS:] for output in outputs]
    wrong = [number for number, output in enumerate(outputs) if not output["right"]]
    must(machine.is_fake or not wrong, f"wrong results of tenants {wrong}")
    return [[sum(tenant_bins[at:at + BINS_A_SECOND]) for tenant_bins in bins]
            for at in range(0, len(bins[0]), BINS_A_SECOND)]


def tolerance_points(machine):
    return TOLERANCE_POINTS_FAKE if machine.is_fake else TOLERANCE_POINTS


def percents(counts):
    """Each tenant's part of the kernels, in percent."""
    return [100 * count / max(sum(counts), 1) for count in counts]


def mean(seconds):
    """Each tenant's mean share over all seconds, in percent."""
    return [round(statistics.mean(column), 1) for column in zip(*map(percents, seconds))]


def error(seconds, asked):
    """The mean distance of the shares in one second from the requested ones, in percentage points."""
    return statistics.mean(abs(a - b) for counts in seconds for a, b in zip(percents(counts), asked))


def compare(machine, record, count):
    machine.require_soft_limits()
    asked, work = REQUESTED[count], steps(machine)
    bare = kernels_by_second(machine, lambda at: [machine.outside_vgpu(spin(machine, work, at)) for _ in asked])
    ours = kernels_by_second(
        machine, lambda at: [machine.in_vgpu(["-m", machine.size(machine.quota()), "-c", str(percent)],
                                             spin(machine, work, at)) for percent in asked])
    totals = [sum(map(sum, seconds)) for seconds in (bare, ours)]
    record.update(asked=list(asked), got=mean(ours), driver_alone=mean(bare), points_off=round(error(ours, asked), 2),
                  throughput=round(totals[1] / max(totals[0], 1), 3))
    must(totals[1] > 0, "no kernel was completed")
    near_enough = [abs(got - wanted) <= tolerance_points(machine) for got, wanted in zip(mean(ours), asked)]
    must(all(near_enough),
         f"shares in percent: requested {asked}, got {mean(ours)}, may differ by {tolerance_points(machine)}")


@check("shares")
def two_tenants_get_their_shares(machine, record):
    compare(machine, record, 2)


@check("shares")
def three_tenants_get_their_shares(machine, record):
    compare(machine, record, 3)


@check("shares")
def four_tenants_get_their_shares(machine, record):
    compare(machine, record, 4)


@check("shares")
def limits_hold_for_a_tenant_that_is_alone(machine, record):
    machine.require_soft_limits()
    work = steps(machine)
    free = kernels_by_second(machine, lambda at: [machine.outside_vgpu(spin(machine, work, at))])
    whole = 10**6 / KERNEL_US if machine.is_fake else statistics.mean(counts[0] for counts in free)
    for percent in (10, 30, 50, 80):
        seconds = kernels_by_second(machine, lambda at, limit=percent: [
            machine.in_vgpu(["-c", f"{limit}:{limit}"], spin(machine, work, at))])
        got = 100 * statistics.mean(counts[0] for counts in seconds) / max(whole, 1)
        record[f"{percent} %"] = round(got, 1)
        must(0 < got < percent + tolerance_points(machine), f"limit of {percent} %: got {got:.1f} % of the device")
