# SPDX-License-Identifier: Apache-2.0
"""The provider keeps its contract on the real device: `facet provider check`.

Owns: reading the command's TAP output. Never: lets it make or destroy MIG instances: a GPU in MIG mode is left alone.
"""
from suite import Skip, check, must

_conformance_output = {}


def conformance(machine):
    """The output lines of the check, which runs only once."""
    in_mig_mode = [gpu["id"] for gpu in machine.gpus if "partitioned" in gpu["modes"]]
    if in_mig_mode:
        raise Skip(f"{', '.join(in_mig_mode)} in MIG mode: the check would make instances and destroy them; "
                   "run 'facet provider check' yourself if it may")
    if "lines" not in _conformance_output:
        done = machine.try_facet("provider", "check", str(machine.build / "facet-provider-cuda.so"))
        _conformance_output["lines"] = done.stdout.splitlines()
        _conformance_output["errors"] = done.stderr.strip()
    return _conformance_output["lines"]


def tally(lines):
    skipped = [line for line in lines if line.startswith("ok") and "# SKIP" in line]
    failed = [line for line in lines if line.startswith("not ok")]
    passed = [line for line in lines if line.startswith("ok") and "# SKIP" not in line]
    return passed, failed, skipped


@check("provider")
def the_provider_passes_the_conformance_checks(machine, record):
    passed, failed, skipped = tally(conformance(machine))
    record.update(passed=len(passed), failed=len(failed), skipped=len(skipped))
    must(passed, f"nothing was checked: {_conformance_output['errors']}")
    must(not failed, failed_assertions(conformance(machine)))


def failed_assertions(lines):
    """The lines of failed assertions, each with the diagnostics below it."""
    kept, failing = [], False
    for line in lines:
        if not line.startswith(("#", " ")):
            failing = line.startswith("not ok")
        if failing:
            kept.append(line)
    return "\n".join(kept)
