# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent's abstract allocation map. Owns: its constructor and tables. Never: allocates."""
from abc import ABC, abstractmethod
from decimal import Decimal


class AbstractAllocMap(ABC):
    def __init__(self, *, device_slots=None, device_mask=None, exclusive_slot_types=None):
        self.exclusive_slot_types = exclusive_slot_types or {}
        self.device_slots = device_slots or {}
        self.device_mask = device_mask or frozenset()
        self.allocations = {}
        for device, info in self.device_slots.items():
            self.allocations[info.slot_name][device] = Decimal(0)

    def clear(self):
        self.allocations.clear()

    @abstractmethod
    def allocate(self, slots, *, affinity_hint=None, context_tag=None):
        ...

    @abstractmethod
    def apply_allocation(self, existing_alloc):
        ...

    @abstractmethod
    def free(self, existing_alloc):
        ...
