# SPDX-License-Identifier: Apache-2.0
"""A plain model of Backend.AI's allocation maps, in exact fractions, and random vectors recorded from it.

Owns: the rules of docs/allocation.md ("as Backend.AI") written down as simply as they can be, for one slot.
Never: shares code with the C library, is optimized for speed, or records an outcome that breaks a rule.
"""
from fractions import Fraction as F

GRID = F(1, 100)


class Refused(Exception):
    pass


def floor_to(amount, step):
    return amount // step * step


class Model:
    def __init__(self, kind, strategy, quantum, capacities, nodes, policy):
        self.kind, self.strategy, self.quantum, self.policy = kind, strategy, quantum, policy
        self.capacities, self.nodes = capacities, nodes
        self.taken = [F(0)] * len(capacities)
        self.hint = []  # the devices to which the next request with a hint should be near

    def free(self, device):
        return self.capacities[device] - self.taken[device]

    # --- order ---

    def most_free_first(self, devices):
        return sorted(devices, key=lambda device: -self.free(device))

    def interleave(self, groups):
        groups, order = [list(group) for group in groups], []
        while any(groups):
            order += [group.pop(0) for group in groups if group]
        return order

    def order(self, hint):
        all_devices = range(len(self.capacities))
        if not self.policy:
            return self.most_free_first(all_devices)
        if hint:
            wanted = sorted({self.nodes[device] for device in hint})
            near = [self.most_free_first(d for d in all_devices if self.nodes[d] == node) for node in wanted]
            return self.interleave(near) + self.most_free_first(d for d in all_devices if self.nodes[d] not in wanted)
        groups = [[d for d in all_devices if self.nodes[d] == node] for node in dict.fromkeys(self.nodes)]
        groups.sort(key=len, reverse=True)
        groups.sort(key=lambda group: sum(self.taken[device] for device in group))
        groups = [self.most_free_first(group) for group in groups]
        return sum(groups, []) if self.policy == "PREFER_SINGLE_NODE" else self.interleave(groups)

    # --- strategies: device -> amount ---

    def fill(self, amount, order):
        if sum(map(self.free, order)) < amount:
            raise Refused("InsufficientResource")
        grants = {}
        for device in order:
            part = min(amount, self.free(device))
            if part > 0:
                grants[device] = part
                amount -= part
        return grants

    def spread(self, amount, order):
        if sum(map(self.free, order)) < amount:
            raise Refused("InsufficientResource")
        grants = dict.fromkeys(order, F(0))
        while amount:
            sharers = [device for device in order if self.free(device) > grants[device]]
            base, extra = divmod(amount, len(sharers))
            for rank, device in enumerate(sharers):
                part = min(base + (rank < extra), self.free(device) - grants[device])
                grants[device] += part
                amount -= part
        return grants

    def across(self, amount, window):
        """Takes small devices whole and an equal part of each other device; remaining hundredths go to the first."""
        grants, sharers = {}, list(window)
        while sharers and self.free(sharers[-1]) < amount / len(sharers):
            device = sharers.pop()
            grants[device] = self.free(device)
            amount -= grants[device]
        for rank, device in enumerate(sharers):
            share = floor_to(amount / len(sharers), GRID)
            left = (amount - share * len(sharers)) / GRID
            grants[device] = share + (GRID if rank < left else 0)
        return grants

    def split(self, amount, order, least):
        order = [device for device in order if self.free(device) >= least]
        if sum(map(self.free, order)) < amount:
            raise Refused("InsufficientResource")
        if amount <= self.free(order[0]):
            return {next(device for device in reversed(order) if self.free(device) >= amount): amount}
        best = None
        for count in range(1, len(order) + 1):
            candidate = None
            for first in range(len(order) - count + 1):
                window = order[first:first + count]
                if sum(map(self.free, window)) < amount:
                    break
                grants = self.across(amount, window)
                evenness = min(grants.values()) - max(grants.values())
                if candidate and evenness < bound:
                    break
                bound = evenness if first == 0 else bound
                candidate = (evenness, -count), grants
            if candidate and (best is None or candidate[0] > best[0]):
                best = candidate
        return best[1]

    # --- the guard ---

    def guard(self, amount, devices):
        """Refuses an amount that no number of devices can hold in nearly equal shares: `share` on each device, and a
        quantum more on `extra` devices."""
        largest = self.capacities[self.most_free_first(devices)[0]]
        fewest = -(-amount // largest)
        for count in range(fewest, fewest + 1 if amount <= largest else len(self.capacities) + 1):
            share = floor_to(amount / count, self.quantum)
            extra = -(-(amount - share * count) // self.quantum)
            if sum(self.free(d) >= share + self.quantum for d in devices) >= extra and \
                    sum(self.free(d) >= share for d in devices) >= count:
                return
        raise Refused("FractionalResourceFragmented")

    # --- steps ---

    def allocate(self, amount, hint, guard, least):
        order = self.order(hint)
        if self.kind == "discrete":
            grants = (self.fill if self.strategy == "fill" else self.spread)(amount, order)
        else:
            if guard:
                self.guard(amount, range(len(self.capacities)))
            grants = self.fill(amount, order) if self.strategy == "fill" else self.split(amount, order, least)
            grants = {device: floor_to(part, self.quantum) for device, part in grants.items()}
            if sum(grants.values()) == 0:
                raise Refused("NotMultipleOfQuantum")
        grants = {device: part for device, part in grants.items() if part}
        self.give(grants, 1)
        return grants

    def give(self, grants, sign):
        for device, part in grants.items():
            self.taken[device] += sign * part


def text(amount):
    return str(float(amount)) if amount.denominator > 1 else str(amount)


def amounts(pairs):
    return {"x": {f"d{device}": text(part) for device, part in pairs if part}}


def random_step(source, model, index, live):
    if source.random() < 0.15:
        model.hint = source.sample(range(len(model.capacities)), source.randint(1, len(model.capacities)))
        return {"op": "seed_hint", "devices": [f"d{device}" for device in model.hint],
                "expect": {"state_after": amounts(enumerate(model.taken))}}
    if live and source.random() < 0.35:
        step = source.choice(sorted(live))
        model.give(live.pop(step), -1)
        return {"op": "free", "result_of": step, "expect": {"state_after": amounts(enumerate(model.taken))}}
    fraction = model.kind == "fraction"
    amount = F(source.randint(1, 450), 100) if fraction else F(source.randint(1, 25))
    least = GRID * source.choice((1, 1, 1, 5, 25))
    guard = fraction and source.random() < 0.3
    reuse = source.random() < 0.5
    expect = {}
    try:
        live[index] = model.allocate(amount, model.hint if reuse else [], guard, least)
        model.hint = list(live[index])
        expect["result"] = amounts(live[index].items())
    except Refused as refused:
        expect["error"] = str(refused)
    expect["state_after"] = amounts(enumerate(model.taken))
    return {"op": "allocate", "request": {"x": text(amount)}, "min_memory": text(least),
            "allow_fragmentation": not guard, "reuse_hint": reuse, "expect": expect}


def random_vector(source, number):
    kind, strategy = source.choice(("discrete", "fraction", "fraction")), source.choice(("evenly", "fill"))
    quantum = source.choice((GRID, GRID, F(1, 10), F(1, 4), F(3, 10)))
    count = source.randint(1, 9)
    alike = source.random() < 0.5
    first = source.randint(1, 150)
    capacities = [(F(100 if alike and first < 75 else first if alike else source.randint(1, 300), 100))
                  if kind == "fraction" else F(source.randint(0, 9)) for _ in range(count)]
    nodes = [source.randint(0, 2) for _ in range(count)]
    # With a policy, fraction maps are not in descending order, and the original splits such an order wrongly.
    policy = source.choice((None, "PREFER_SINGLE_NODE", "INTERLEAVED")) if kind == "discrete" else None
    model, live = Model(kind, strategy, quantum, capacities, nodes, policy), {}
    steps = [random_step(source, model, index, live) for index in range(source.randint(1, 8))]
    return {"id": f"random-{number}", "origin": "repo_test", "map": kind, "strategy": strategy, "quantum": text(quantum),
            "devices": [{"id": f"d{d}", "slot": "x", "slot_type": "count", "numa_node": nodes[d],
                         "capacity": text(capacities[d])} for d in range(count)],
            "affinity_policy": policy, "steps": steps}
