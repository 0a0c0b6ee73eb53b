# SPDX-License-Identifier: Apache-2.0
"""Backend.AI's allocation map, built on Facet's: allocate, apply_allocation, free.

Owns: the translation of Backend.AI's terms (amounts by slot and device, hints, error classes) to Facet's, and which
grant an amount is part of. Never: decides a grant, rounds an amount, or changes anything when it refuses.

Each operation holds the map's lock, so threads may share a map. `allocations` is a copy: a change of the copy does not
change the map, but an assignment to `allocations` replaces the amounts taken.
"""
import ctypes
import threading
from collections import defaultdict
from contextlib import contextmanager
from ctypes import byref, c_uint32, c_uint64, c_void_p

from . import interface
from .library import (INVALID_ARGUMENT, TOO_SMALL, FacetError, MapConfig, MapDevice, MapsConfig, MapsItem, MapsPart,
                      MapsPlace, MapsRefusal, MapsRequest, encode, from_micro, load, to_micro)

EXACT, ROUND_DOWN = 0, 1
KINDS = {"discrete": 0, "fraction": 1}
STRATEGIES = {"evenly": 0, "fill": 1}
TYPES = {"count": 0, "bytes": 1, "unique": 2, "unified": 3}
AFFINITY_NONE, INTERLEAVED, PREFER_SINGLE_NODE = range(3)
REFUSED_SLOT, REFUSED_AMOUNT, REFUSED_QUANTUM, REFUSED_EXCLUSIVE, REFUSED_SHORT, REFUSED_FRAGMENTED = range(1, 7)


def _word(value):
    """The value, in lower case, of a member of Backend.AI's enumerations, or of a plain text."""
    return str(getattr(value, "value", value)).lower()


class FacetAllocMap(interface.AbstractAllocMap):
    """`numa_nodes`: the NUMA node by device id. `unhealthy`: the ids of devices that must not be granted, or a function
    that returns the present ids. `most_devices`: a grant on more devices than this is refused; None: any number."""

    def __init__(self, *, device_slots, device_mask=(), exclusive_slot_types=(), kind="fraction", strategy="evenly",
                 quantum=None, rules=EXACT, numa_nodes=None, unhealthy=(), most_devices=None, name="facet"):
        self._pointer, self._lock = None, threading.RLock()  # close() needs both if a step below fails
        slots = {key: info for key, info in device_slots.items() if key not in frozenset(device_mask or ())}
        self._set_up(kind, rules, dict(numa_nodes or {}), most_devices, name)
        self.strategy = strategy
        self._places = [(str(info.slot_name), str(device)) for device, info in slots.items()]
        self._numbers = {place: number for number, place in enumerate(self._places)}
        super().__init__(device_slots=slots, device_mask=frozenset(device_mask or ()),
                         exclusive_slot_types=set(exclusive_slot_types))
        self._ask_unhealthy = unhealthy if callable(unhealthy) else None
        self._unhealthy = frozenset(self._ask_unhealthy() if self._ask_unhealthy else unhealthy)
        self._create(strategy, quantum, self._unhealthy)

    def _set_up(self, kind, rules, numa_nodes, most_devices, name):
        self._library = load()
        self.kind, self.rules, self.numa_nodes, self.most_devices = kind, rules, numa_nodes, most_devices
        self.name, self._on_clear = name, []

    def _create(self, strategy, quantum, unhealthy):
        patterns = [encode(text, "exclusive_slot_types") for text in sorted(map(str, self.exclusive_slot_types))]
        config = MapConfig(name=encode(self.name, "name"), exclusive=(ctypes.c_char_p * len(patterns))(*patterns),
                           exclusive_count=len(patterns), kind=KINDS[_word(self.kind)],
                           strategy=STRATEGIES[_word(strategy)],
                           quantum=0 if quantum is None else to_micro(quantum, "quantum"))
        devices = (MapDevice * len(self._places))()
        for entry, (device, info) in zip(devices, self.device_slots.items()):
            node = self.numa_nodes.get(device)
            entry.id, entry.slot = encode(device, "device"), encode(info.slot_name, "slot")
            entry.type, entry.numa_node = TYPES[_word(info.slot_type)], -1 if node is None else node
            entry.unhealthy, entry.capacity = device in unhealthy, to_micro(info.amount, "amount")
        pointer = c_void_p()
        self._library.call("maps_create", byref(MapsConfig(
            size=ctypes.sizeof(MapsConfig), map_count=1, maps=ctypes.pointer(config), devices=devices,
            device_count=len(devices))), byref(pointer))
        self._pointer = pointer

    def close(self):
        """Frees the map with all amounts taken. May be called twice."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
            if pointer:
                self._library.maps_destroy(pointer)

    def __del__(self):
        self.close()

    def __deepcopy__(self, memo):
        copy = object.__new__(type(self))
        copy._pointer, copy._lock = None, threading.RLock()
        pointer = c_void_p()
        with self._lock:
            copy.__dict__.update(self.__dict__, _pointer=None, _lock=copy._lock,
                                 _on_clear=list(self._on_clear))
            self._library.call("maps_copy", self._pointer, byref(pointer))
        copy._pointer = pointer
        memo[id(self)] = copy
        return copy

    # --- amounts taken ---

    def _place(self, number):
        place = MapsPlace(size=ctypes.sizeof(MapsPlace))
        self._library.call("maps_get_place", self._pointer, number, byref(place))
        return place

    @property
    def allocations(self):
        """The amounts taken, by slot and device; a device of which nothing is taken is listed with 0."""
        taken = defaultdict(dict)
        with self._lock:
            for number, (slot, device) in enumerate(self._places):
                taken[slot][device] = from_micro(self._place(number).granted if self._pointer else 0)
        return taken

    @allocations.setter
    def allocations(self, taken):
        if self._pointer is not None:  # None: the constructor of the base class sets its own, empty allocations
            with self._transaction():
                self._release_all()
                self._commit(self._parts(taken))

    def get_current_allocations(self, affinity_hint=None, slot_name=None):
        """(device, amount taken) of a slot, the device with the largest free amount first."""
        with self._lock:
            found = [(device, self._place(number)) for number, (slot, device) in enumerate(self._places)
                     if slot_name is None or slot == str(slot_name)]
        found.sort(key=lambda item: item[1].granted - item[1].capacity)
        return [(device, from_micro(place.granted)) for device, place in found]

    def format_current_allocations(self):
        return "\n".join(f"{slot}:\n" + "\n".join(f"  {device}: {amount}" for device, amount in devices.items())
                         for slot, devices in self.allocations.items())

    def clear(self):
        """Gives all amounts back. The agent calls it before it restores the containers that are alive."""
        if self._pointer is None:  # called by the constructor of the base class
            return
        with self._lock:
            self._release_all()
        for callback in self._on_clear:
            callback()

    def on_clear(self, callback):
        self._on_clear.append(callback)

    def set_strategy(self, strategy):
        self._library.call("maps_set_strategy", self._pointer, 0, STRATEGIES[_word(strategy)])
        self.strategy = strategy

    def set_health(self, device, healthy):
        self._library.call("maps_set_health", self._pointer, 0, encode(device, "device"), 0 if healthy else 1)

    def _update_health(self):
        if self._ask_unhealthy is None:
            return
        unhealthy = frozenset(self._ask_unhealthy())
        for _, device in self._places:
            if (device in unhealthy) != (device in self._unhealthy):
                self.set_health(device, device not in unhealthy)
        self._unhealthy = unhealthy

    # --- taking ---

    def allocate(self, slots, *, affinity_hint=None, context_tag=None, min_memory=None,
                 allow_resource_fragmentation=True):
        """Returns {slot: {device: amount}}. Requests of 0 are left out; all others are granted, or none is."""
        items = [(str(slot), self._amount(slot, amount)) for slot, amount in slots.items()]
        items = [(slot, amount) for slot, amount in items if amount != 0]
        with self._lock, self._raises_resource_errors():
            self._update_health()
            least = 0 if min_memory is None else to_micro(min_memory, "min_memory")
            guard = 0 if allow_resource_fragmentation else 1
            # Near devices may be nearly full: one device elsewhere is better than two near ones above most_devices.
            retry_without_hint = self.most_devices is not None and affinity_hint is not None
            for hint in (affinity_hint, None) if retry_without_hint else (affinity_hint,):
                grant, parts = self._allocate_once(items, hint, guard, least, context_tag)
                devices = {self._places[place][1] for place, _ in parts}
                if self.most_devices is None or len(devices) <= self.most_devices:
                    return {slot: self._amounts_by_slot(parts).get(slot, {}) for slot, _ in items}
                self._library.call("maps_release", self._pointer, grant)
        raise interface.make_error(
            interface.FractionalResourceFragmented,
            f"{self.name}: expected amounts that fit on {self.most_devices} device(s): one process has one vGPU",
            slot_name=items[0][0], requested_alloc=from_micro(items[0][1]), dev_allocs=self._amounts_by_slot(parts),
            context_tag=context_tag)

    def _allocate_once(self, items, hint, guard, least, context_tag):
        """Returns the grant, and its parts."""
        request, buffers = self._request(items, hint)
        request.guard, request.least = guard, least
        grant, refusal = c_uint64(), MapsRefusal(size=ctypes.sizeof(MapsRefusal))
        try:
            self._library.call("maps_allocate", self._pointer, byref(request), byref(grant), byref(refusal))
        except FacetError as error:
            raise self._to_resource_error(error, refusal, items, context_tag) from error
        del buffers
        return grant, self._grant(grant.value)

    @contextmanager
    def _raises_resource_errors(self):
        """Turns errors into ResourceErrors: only then does the agent take back the grants of other plugins."""
        try:
            yield
        except FacetError as error:
            kind = interface.InvalidResourceArgument if error.status == INVALID_ARGUMENT else interface.ResourceError
            raise interface.make_error(kind, f"{self.name}: {error.message}") from error

    def _amount(self, slot, amount):
        try:
            micro = to_micro(amount, str(slot))
        except (FacetError, ArithmeticError) as error:
            raise interface.make_error(interface.InvalidResourceArgument, f"{slot}: {error}") from error
        if micro < 0:
            raise interface.make_error(interface.InvalidResourceArgument,
                                       f"{slot} {amount}: expected an amount of 0 or more")
        return micro

    def _request(self, items, hint):
        array = (MapsItem * len(items))(*[(encode(slot, "slot"), amount) for slot, amount in items])
        near = self._near_places(hint)
        request = MapsRequest(size=ctypes.sizeof(MapsRequest), count=len(items), items=array, rules=self.rules,
                              affinity=self._affinity(hint), near=near, near_count=len(near))
        return request, (array, near)

    @staticmethod
    def _affinity(hint):
        if hint is None:
            return AFFINITY_NONE
        policy = getattr(hint, "policy", None)
        return PREFER_SINGLE_NODE if getattr(policy, "name", policy) == "PREFER_SINGLE_NODE" else INTERLEAVED

    def _near_places(self, hint):
        """Places of this map near a hint's devices. Those may be another plugin's: for each, a place of this map on the
        same NUMA node is used."""
        nodes = [getattr(device, "numa_node", None) for device in getattr(hint, "devices", None) or ()]
        by_node = {}
        for number, (_, device) in enumerate(self._places):
            by_node.setdefault(self.numa_nodes.get(device), number)
        near = [by_node[node] for node in dict.fromkeys(nodes) if node in by_node]
        return (c_uint32 * len(near))(*near)

    def _to_resource_error(self, error, refusal, items, context_tag):
        slot, requested = items[refusal.item] if refusal.item < len(items) else ("", 0)
        text = f"{self.name}: {error.message}"
        common = {"slot_name": slot, "requested_alloc": from_micro(requested), "context_tag": context_tag}
        if refusal.reason == REFUSED_FRAGMENTED:
            return interface.make_error(interface.FractionalResourceFragmented, text,
                                        dev_allocs=self.get_current_allocations(None, slot), **common)
        legacy = refusal.reason == REFUSED_SLOT and self.rules == ROUND_DOWN
        if refusal.reason == REFUSED_SHORT or legacy:
            return interface.make_error(interface.InsufficientResource, text,
                                        total_allocatable=from_micro(refusal.could), allocation={}, **common)
        kinds = {REFUSED_SLOT: interface.UnsupportedResource, REFUSED_AMOUNT: interface.InvalidResourceArgument,
                 REFUSED_QUANTUM: interface.NotMultipleOfQuantum,
                 REFUSED_EXCLUSIVE: interface.InvalidResourceCombination}
        kind = kinds.get(refusal.reason)
        return error if kind is None else interface.make_error(kind, text)

    # --- restoring and giving back ---

    def apply_allocation(self, existing_alloc):
        """Takes these amounts again after a restart: if one does not fit, none is taken."""
        with self._lock, self._raises_resource_errors():
            self._commit(self._parts(existing_alloc))

    def free(self, existing_alloc):
        """Gives these amounts back: from the grant of exactly these amounts, else from grants on the same devices."""
        with self._raises_resource_errors(), self._transaction():
            wanted = self._parts(existing_alloc)
            grants = {grant: self._grant(grant) for grant in self._handles()} if wanted else {}
            exact = next((grant for grant, parts in grants.items() if sorted(parts) == sorted(wanted.items())), None)
            if exact is not None:
                self._library.call("maps_release", self._pointer, exact)
                return
            remaining = {}
            for grant, parts in grants.items():
                if any(place in wanted for place, _ in parts):
                    self._library.call("maps_release", self._pointer, grant)
                    for place, amount in parts:
                        remaining[place] = remaining.get(place, 0) + amount
            for place, amount in wanted.items():
                remaining[place] = remaining.get(place, 0) - amount
                if remaining[place] < 0:
                    slot, device = self._places[place]
                    raise interface.make_error(
                        interface.InvalidResourceArgument,
                        f"{self.name}: {slot} of {device}: {from_micro(amount)} to free, but only "
                        f"{from_micro(remaining[place] + amount)} is taken")
            self._commit(remaining)

    def _parts(self, alloc):
        parts = {}
        for slot, devices in alloc.items():
            for device, amount in devices.items():
                micro = self._amount(slot, amount)
                place = self._numbers.get((str(slot), str(device)))
                if place is None and micro:
                    raise interface.make_error(interface.InvalidResourceArgument,
                                               f"{self.name}: there is no {slot} on {device}")
                if micro:
                    parts[place] = micro
        return parts

    def _commit(self, parts):
        array = [(place, 0, amount) for place, amount in parts.items() if amount]
        if array:
            self._library.call("maps_commit", self._pointer, (MapsPart * len(array))(*array), len(array),
                               byref(c_uint64()))

    def _release_all(self):
        for grant in self._handles():
            self._library.call("maps_release", self._pointer, grant)

    def _handles(self):
        return [value for value in self._list("maps_list", c_uint64)]

    def _grant(self, grant):
        return [(part.place, part.amount) for part in self._list("maps_get_grant", MapsPart, grant)]

    def _list(self, name, kind, *arguments):
        capacity, count = max(len(self._places), 1), c_uint32()
        while True:
            array = (kind * capacity)()
            try:
                self._library.call(name, self._pointer, *arguments, array, capacity, byref(count))
                return array[:count.value]
            except FacetError as error:
                if error.status != TOO_SMALL:
                    raise
                capacity = count.value

    def _amounts_by_slot(self, parts):
        found = {}
        for place, amount in parts:
            slot, device = self._places[place]
            found.setdefault(slot, {})[device] = from_micro(amount)
        return found

    def _transaction(self):
        return _Transaction(self)


class _Transaction:
    """Several steps on one map, of which all take effect or none does."""

    def __init__(self, owner):
        self._owner, self._saved = owner, c_void_p()

    def __enter__(self):
        self._owner._lock.acquire()
        try:
            self._owner._library.call("maps_copy", self._owner._pointer, byref(self._saved))
        except BaseException:
            self._owner._lock.release()
            raise

    def __exit__(self, kind, error, trace):
        library = self._owner._library
        try:
            if kind is not None:
                library.call("maps_reset", self._owner._pointer, self._saved)
        finally:
            library.maps_destroy(self._saved)
            self._owner._lock.release()
        if isinstance(error, FacetError):
            raise interface.make_error(interface.ResourceError, f"{self._owner.name}: {error.message}") from error
