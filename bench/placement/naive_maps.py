# SPDX-License-Identifier: Apache-2.0
"""The algorithm of Backend.AI's allocation maps in plain Python: dictionaries of Decimals by name, a search in a graph
of all devices, and copies of all maps before each request, so that they can be restored.

Owns: a peer for the bench, on the node of allocation_maps.c, and its clock.
Never: ships, or shares code with its original.
"""
import copy
import time
from decimal import ROUND_DOWN, Decimal

HUNDREDTH = Decimal("0.01")
HELD = 4


def node():
    """Type -> (slot, fraction?, capacities); (type, id) -> NUMA node."""
    types = {"cuda": ("cuda.shares", True, {str(i): Decimal(1) for i in range(8)}),
             "cpu": ("cpu", False, {str(i): Decimal(1) for i in range(144)}),
             "mem": ("mem", False, {"0": Decimal(4398046)})}
    places = {**{("cuda", str(i)): i // 4 for i in range(8)}, **{("cpu", str(i)): i // 72 for i in range(144)},
              ("mem", "0"): 0}
    return types, places


class Node:
    def __init__(self):
        self.types, self.places = node()
        self.taken = {slot: dict.fromkeys(devices, Decimal(0)) for slot, _, devices in self.types.values()}
        self.weights = {(a, b): 0 if self.places[a] == self.places[b] else 1 for a in self.places for b in self.places}

    def clusters(self, kind):
        """The groups of a type's devices that edges of weight 0 connect."""
        left, found = [device for device in self.places if device[0] == kind], []
        while left:
            group, queue = set(), [left[0]]
            while queue:
                device = queue.pop()
                if device in group:
                    continue
                group.add(device)
                queue += [other for other in self.places
                          if other[0] == kind and self.weights[device, other] == 0 and other not in group]
            found.append({device[1] for device in group})
            left = [device for device in left if device not in group]
        return sorted(found, key=len, reverse=True)

    def sort(self, kind, devices):
        slot, _, capacities = self.types[kind]
        return sorted((device for device in self.taken[slot] if device in devices),
                      key=lambda device: capacities[device] - self.taken[slot][device], reverse=True)

    def order(self, kind, affinity, hint):
        slot, _, capacities = self.types[kind]
        if not affinity:
            return self.sort(kind, capacities)
        if hint:
            nodes = {self.places[device] for device in hint}
            near = {device for name, device in self.places if name == kind and self.places[name, device] in nodes}
            return self.sort(kind, near) + self.sort(kind, set(capacities) - near)
        clusters = sorted(self.clusters(kind), key=lambda group: sum(self.taken[slot][device] for device in group))
        return [device for group in clusters for device in self.sort(kind, group)]

    def spread(self, amount, order, free):
        parts = dict.fromkeys(order, Decimal(0))
        left = int(amount)
        while left > 0:
            if sum(free[device] - parts[device] for device in order) < left:
                raise LookupError("short")
            sharers = [device for device in order if free[device] - parts[device] > 0]
            base, extra = divmod(left, len(sharers))
            for rank, device in enumerate(sharers):
                part = min(int(free[device] - parts[device]), base + (1 if rank < extra else 0))
                parts[device] += part
                left -= part
                if left == 0:
                    break
        return {device: part for device, part in parts.items() if part}

    def across(self, amount, window, free):
        parts, sharers = {}, list(window)
        while sharers and free[sharers[-1]] < amount / len(sharers):
            parts[sharers[-1]] = free[sharers[-1]]
            amount -= free[sharers.pop()]
        if sharers:
            share = (amount / len(sharers)).quantize(HUNDREDTH, rounding=ROUND_DOWN)
            extra = round((amount - share * len(sharers)) * 100)
            parts.update({device: share + (HUNDREDTH if rank < extra else 0) for rank, device in enumerate(sharers)})
        return parts

    def split(self, amount, order, free):
        if sum(free.values()) < amount:
            raise LookupError("short")
        if amount <= free[order[0]]:
            return {next(device for device in reversed(order) if amount <= free[device]): amount}
        candidates = []
        for count in range(1, len(order) + 1):
            bound, best = None, None
            for first in range(len(order) - count + 1):
                window = order[first:first + count]
                if sum(free[device] for device in window) < amount:
                    break
                parts = self.across(amount, window, free)
                values = sorted(parts.values())
                evenness = -sum(abs(b - a) for a, b in zip(values, values[1:]))
                if bound is None:
                    bound = evenness
                if evenness < bound:
                    break
                best = (evenness, -len(parts), parts)
            if best:
                candidates.append(best)
        return max(candidates, key=lambda candidate: candidate[:2])[2]

    def allocate(self, request, affinity):
        saved, hint, granted = copy.deepcopy(self.taken), [], {}
        try:
            for kind, (slot, fraction, capacities) in self.types.items():
                if slot not in request:
                    continue
                order = self.order(kind, affinity, hint)
                free = {device: capacities[device] - self.taken[slot][device] for device in order}
                granted[slot] = (self.split if fraction else self.spread)(request[slot], order, free)
                for device, part in granted[slot].items():
                    self.taken[slot][device] += part
                hint = [(kind, device) for device in granted[slot]]
        except LookupError:
            self.taken = saved
            raise
        return granted

    def free(self, granted):
        for slot, parts in granted.items():
            for device, part in parts.items():
                self.taken[slot][device] -= part


CASES = {
    "part of a GPU": ({"cuda.shares": Decimal("0.3")}, False),
    "1.5 GPUs": ({"cuda.shares": Decimal("1.5")}, False),
    "8 cores": ({"cpu": Decimal(8)}, False),
    "8 cores of one socket": ({"cpu": Decimal(8)}, True),
    "GPU, cores, memory": ({"cuda.shares": Decimal("0.5"), "cpu": Decimal(8), "mem": Decimal(1048576)}, True),
}


def measure(name, seconds):
    """Nanoseconds of an allocation and the release of the oldest of four."""
    request, affinity = CASES[name]
    maps, held, operations = Node(), [], 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        if len(held) == HELD:
            maps.free(held.pop(0))
        held.append(maps.allocate(request, affinity))
        operations += 1
    return elapsed / operations * 1e9
