# SPDX-License-Identifier: Apache-2.0
"""The list of checks of the GPU suite, their order, and their report.

Owns: printing TAP on standard output, and the records of each check. Never: knows the subject of a check.
"""
import traceback

_checks = []


class Skip(Exception):
    """Raised when a part that a check needs is missing; the text names that part."""


class Failed(Exception):
    """Raised when a value is not the expected one; the message has both."""


def check(part):
    """Marks a function of (machine, record) as a check of `part`; the report keeps the values that it puts into the
    dict `record`."""
    def add(function):
        _checks.append((part, function))
        return function
    return add


def parts():
    return list(dict.fromkeys(part for part, _ in _checks))


def must(condition, text):
    """Fails the check with `text` unless the condition holds."""
    if not condition:
        raise Failed(text)


def check_near(got, expected, most, what):
    must(abs(got - expected) <= most, f"{what}: got {got}, expected {expected} or at most {most} away")


def _outcome(function, machine, record):
    """The outcome of a check, and the reason."""
    try:
        function(machine, record)
    except Skip as skip:
        return "skipped", str(skip)
    except Failed as failed:
        return "failed", str(failed)
    except Exception:  # a failure in one check must not end the others
        return "failed", traceback.format_exc()
    return "passed", ""


def _print_outcome(number, name, outcome, reason):
    lines = reason.strip().splitlines() or [""]
    print(f"{'not ok' if outcome == 'failed' else 'ok'} {number} - {name}"
          f"{f' # SKIP {lines[-1]}' if outcome == 'skipped' else ''}", flush=True)
    if outcome == "failed":
        for line in lines:
            print(f"# {line}", flush=True)


def run(machine, wanted):
    """Runs every check of the wanted parts; returns a list of {part, name, outcome, reason, record}."""
    chosen = [(part, function) for part, function in _checks if part in wanted]
    results = []
    print(f"1..{len(chosen)}", flush=True)
    for number, (part, function) in enumerate(chosen, 1):
        name, record = f"{part}: {function.__name__.replace('_', ' ')}", {}
        outcome, reason = ("skipped", machine.missing) if machine.missing else _outcome(function, machine, record)
        _print_outcome(number, name, outcome, reason)
        for key, value in record.items():
            print(f"#   {key}: {value}", flush=True)
        results.append({"part": part, "name": name, "outcome": outcome, "reason": reason, "record": record})
    return results
