# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent's measurements. Owns: classes and fields. Never: computes statistics."""
from dataclasses import dataclass, field

from ai.backend.common.types import MetricTypes


@dataclass(frozen=True)
class Measurement:
    value: object
    capacity: object = None


@dataclass
class NodeMeasurement:
    key: str
    type: MetricTypes
    per_node: Measurement
    per_device: dict = field(default_factory=dict)
    stats_filter: frozenset = frozenset()
    current_hook: object = None
    unit_hint: str = "count"


@dataclass
class ContainerMeasurement:
    key: str
    type: MetricTypes
    per_container: dict = field(default_factory=dict)
    stats_filter: frozenset = frozenset()
    unit_hint: str = "count"


@dataclass
class ProcessMeasurement:
    key: str
    type: MetricTypes
    per_process: dict = field(default_factory=dict)
    stats_filter: frozenset = frozenset()
    unit_hint: str = "count"
