# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Backend.AI's types, from its documented interface. Owns: classes and fields. Never: has behaviour."""
import enum
from dataclasses import dataclass


class SlotTypes(enum.StrEnum):
    COUNT = "count"
    BYTES = "bytes"
    UNIQUE = "unique"
    UNIFIED = "unified"


class MetricTypes(enum.Enum):
    GAUGE = 0
    USAGE = 0
    RATE = 1
    UTILIZATION = 2
    ACCUMULATION = 3


@dataclass
class DeviceSlotInfo:
    slot_type: SlotTypes
    slot_name: str
    amount: object
