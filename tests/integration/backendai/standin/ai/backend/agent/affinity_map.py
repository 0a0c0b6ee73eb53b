# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the hints with which the agent asks for near devices. Owns: their classes and fields. Never: orders
devices."""
import enum
from dataclasses import dataclass


class AffinityPolicy(enum.Enum):
    PREFER_SINGLE_NODE = 0
    INTERLEAVED = 1


@dataclass
class AffinityHint:
    devices: object
    affinity_map: object
    policy: AffinityPolicy
