# SPDX-License-Identifier: Apache-2.0
"""Watches the device time that the daemon publishes while programs run.

Owns: asking the daemon repeatedly, and the rule that sums over a device never exceed the time that passed.
Never: tests anything, or knows the share that a program should have.
"""
import http.client
import itertools
import json
import os
import re
import socket
import time

from place import listens, wait_until
from tap import equal

# The reported device time must lie between these parts of the time that the programs measured themselves.
LEAST_PART, MOST_PART = 0.6, 1.2


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("facet", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def _ask(place, path):
    connection = _Connection(os.path.join(place.runtime, "facetd.sock"))
    before_ns = time.monotonic_ns()
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    after_ns = time.monotonic_ns()
    connection.close()
    return before_ns, after_ns, text


class Reading:
    """One answer of the daemon: device time and share by vGPU, and the moments before and after the request."""

    def __init__(self, place, by_metrics):
        if by_metrics:
            self.before_ns, self.after_ns, text = _ask(place, "/metrics")
            self.time_ns = {name: round(float(value) * 1e9) for name, value in re.findall(
                r'facet_vgpu_device_time_seconds_total\{[^}]*name="([^"]*)"[^}]*\} (\S+)', text)}
            self.milli = {name: float(value) * 1000 for name, value in re.findall(
                r'facet_vgpu_share_ratio\{[^}]*name="([^"]*)"[^}]*\} (\S+)', text)}
        else:
            self.before_ns, self.after_ns, text = _ask(place, "/v1/vgpus")
            vgpus = json.loads(text)["vgpus"]
            self.time_ns = {vgpu["name"]: vgpu["device_time_ns"] for vgpu in vgpus if "device_time_ns" in vgpu}
            self.milli = {vgpu["name"]: vgpu["share_milli"] for vgpu in vgpus if "share_milli" in vgpu}


def take_readings(place, processes, most=-1):
    """Reads repeatedly while all processes are in their vGPUs, or `most` times."""
    wait_until(lambda: listens(os.path.join(place.runtime, "facetd.sock")), "a daemon")
    wait_until(lambda: len(Reading(place, False).time_ns) == len(processes), "their vGPUs")
    readings = []
    for number in itertools.count():
        if any(process.poll() is not None for process in processes) or number == most:
            return readings
        readings.append(Reading(place, number % 3 == 2))
        time.sleep(0.003 * (number % 40))


def check(readings):
    """Checks that between any two readings the sum of device times is at most the time that passed."""
    for reading in readings:
        # In thousandths of the device; the half allows for rounding.
        equal(sum(reading.milli.values()) <= 1000.5, True, f"shares of at most 1000 in total: {reading.milli}")
    most = 0
    for first, last in itertools.combinations(readings, 2):
        had = sum(last.time_ns[name] - first.time_ns[name] for name in first.time_ns if name in last.time_ns)
        window = last.after_ns - first.before_ns
        most = max(most, had / window)
        # The metrics are decimal numbers of seconds, so a microsecond is allowed for rounding.
        equal(had <= window + 1000, True, f"device time {had} ns in a window of {window} ns")
        for name in first.time_ns:
            equal(last.time_ns.get(name, first.time_ns[name]) >= first.time_ns[name], True, f"{name} never falls")
    print(f"# {len(readings)} readings: in no window more than {100 * most:.1f} % of it")


def union(spans):
    """The time in which at least one program had a kernel on the device."""
    had = last = 0
    for start, end in sorted(spans):
        had += max(end - max(start, last), 0)
        last = max(last, end)
    return had


class Measured:
    """The programs' own measurements of their kernels, each from its start on the device to its end there."""

    def __init__(self, spans):
        lengths = [end - start for start, end in spans]
        self.any_ns, self.all_ns, self.longest_ns = union(spans), sum(lengths), max(lengths)


def check_reports(reports, measured, readings, begun_ns, ended_ns, arbiter=True):
    """Checks that the final reports sum up to the time in which a kernel of any program was on the device, and never to
    more than the time that passed. Without a daemon as arbiter, idle moments make up for moments in which kernels
    overlapped. The last reading may lack only kernels that ended later."""
    passed = ended_ns - begun_ns
    had = sum(report["device_time_ns"] for report in reports)
    print(f"# reports: {100 * had / passed:.1f} % of the time, programs measured {100 * measured.any_ns / passed:.1f} %, "
          f"{100 * measured.all_ns / passed:.1f} % with overlaps counted twice")
    # If launches of two vGPUs overlap on the device, the part that counts for each depends on which came first.
    equal(had > LEAST_PART * measured.any_ns, True, f"reported {had} ns, measured {measured.any_ns} ns")
    equal(had < MOST_PART * (measured.any_ns if arbiter else measured.all_ns), True,
          f"reported {had} ns, measured {measured.any_ns} ns, {measured.all_ns} ns with overlaps counted twice")
    equal(had <= passed, True, f"reported {had} ns, passed {passed} ns")
    last = [reading for reading in readings if len(reading.time_ns) == len(reports)][-1]
    late = sum(last.time_ns.values()) + len(reports) * (ended_ns - last.before_ns + measured.longest_ns)
    equal(late >= had, True, f"{late} ns at the last reading and since, {had} ns in the end")
