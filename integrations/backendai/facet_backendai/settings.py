# SPDX-License-Identifier: Apache-2.0
"""The plugin's configuration, checked as a whole.

A value has its own type, or is a text, because the agent's store keeps texts.

Owns: defaults, and errors that name the key. Never: reads a text as a list of its letters, or changes its argument.
"""
import logging
import re
from decimal import Decimal, InvalidOperation

from .library import MICRO, FacetError, to_micro
from .maps import EXACT, ROUND_DOWN

log = logging.getLogger(__name__)

RULES = {"exact": EXACT, "round-down": ROUND_DOWN}
_CHOICES = {"allocation_mode": ("fractional", "discrete"), "rules": tuple(RULES), "strategy": ("evenly", "fill"),
            "enforce": ("vgpu", "none")}
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_ACCESS = ("device_nodes", "cdi_devices", "groups", "capabilities", "mounts")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_MICRO_PER_MILLI = MICRO // 1000  # the smallest share that can be enforced, 0.001, in micro-units


def _invalid(name, value, expected):
    return ValueError(f"{name} {value!r}: expected {expected}")


def _choice(name, value):
    if not isinstance(value, str) or value not in _CHOICES[name]:
        raise _invalid(name, value, "one of " + ", ".join(_CHOICES[name]))
    return value


def _words(name, value):
    """The words of a list, or of a text with commas between them."""
    parts = value.split(",") if isinstance(value, str) else value
    if parts is None:
        return ()
    if not isinstance(parts, (list, tuple, set, frozenset)):
        raise _invalid(name, value, "a list, or words with commas between them")
    return tuple(word for word in (str(part).strip() for part in parts) if word)


def _numbers(name, value):
    words = _words(name, value)
    if not all(word.isascii() and word.isdigit() and int(word) < 2**32 for word in words):
        raise _invalid(name, value, "numbers from 0 to 4294967295")
    return tuple(map(int, words))


def _flag(name, value):
    if isinstance(value, bool):
        return value
    if not isinstance(value, (str, int)) or str(value).lower() not in _FLAGS:
        raise _invalid(name, value, "true or false")
    return _FLAGS[str(value).lower()]


def _seconds(name, value):
    try:
        seconds = float(value)
    except (TypeError, ValueError) as error:
        raise _invalid(name, value, "seconds, 0 or more") from error
    if not 0 <= seconds < float("inf"):
        raise _invalid(name, value, "seconds, 0 or more")
    return seconds


def _text(name, value):
    if value is not None and not isinstance(value, str):
        raise _invalid(name, value, "a text")
    return value or None


def _prefix(name, value):
    if not isinstance(value, str) or not _PREFIX.fullmatch(value):
        raise _invalid(name, value, "1 to 32 letters, digits, '.', '_' and '-', a letter or digit first")
    return value


def _quantum(name, value, enforced):
    """Shares are enforced in thousandths: plugin.py would round a finer share down, and refuse one below 0.001."""
    try:
        micro = to_micro(Decimal(str(value)), name)
    except (FacetError, InvalidOperation) as error:
        raise _invalid(name, value, "a number above 0 with at most 6 decimals") from error
    if micro <= 0:
        raise _invalid(name, value, "a number above 0 with at most 6 decimals")
    if enforced and micro % _MICRO_PER_MILLI:
        raise _invalid(name, value, "a multiple of 0.001, the finest share that is enforced; or enforce 'none'")
    return value


def _mapping(name, value):
    if value is None:
        return {}
    if not isinstance(value, dict) and not hasattr(value, "items"):
        raise _invalid(name, value, "a table")
    return {str(key): item for key, item in value.items()}


def _access(name, value):
    """How a container reaches a device: lists of words, and an environment."""
    given = _mapping(name, value)
    access = {key: _words(f"{name}.{key}", given.pop(key)) for key in _ACCESS if key in given}
    access["environment"] = _mapping(f"{name}.environment", given.pop("environment", None))
    if given:
        raise _invalid(name, sorted(given), "only the keys " + ", ".join((*_ACCESS, "environment")))
    return access


def read(given):
    """All keys, with defaults; ValueError names the wrong key."""
    given = _mapping("plugin_config", given)
    found = {name: _choice(name, given.pop(name, allowed[0])) for name, allowed in _CHOICES.items()}
    enforced = found["enforce"] == "vgpu" and found["allocation_mode"] == "fractional"
    found["quantum_size"] = _quantum("quantum_size", given.pop("quantum_size", "0.01"), enforced)
    found["cap"] = _flag("cap", given.pop("cap", True))
    found["device_mask"] = frozenset(_words("device_mask", given.pop("device_mask", ())))
    found["gids"] = _numbers("gids", given.pop("gids", ()))
    found["reap_after_s"] = _seconds("reap_after_s", given.pop("reap_after_s", 600))
    found["vgpu_prefix"] = _prefix("vgpu_prefix", given.pop("vgpu_prefix", "bai-"))
    found["socket"] = _text("socket", given.pop("socket", None))
    found["providers"] = _text("providers", given.pop("providers", None))
    found["devices"] = {key: _access(f"devices.{key}", value)
                        for key, value in _mapping("devices", given.pop("devices", None)).items()}
    if given:
        log.warning("facet: settings that are not known: %s", ", ".join(sorted(given)))
    return found
