# SPDX-License-Identifier: Apache-2.0
"""A guest's output, line by line, as TAP.

Owns: the numbers of the cases, and the verdict on missing lines. Never: reads a console.

A guest's line is "ok - NAME", "ok - NAME # SKIP REASON", "not ok - NAME", "# COMMENT", "@MARK", or "@skip REASON" if
nothing can be checked in the guest. The last line is "@end". Any other line is a comment.
"""


class Report:
    def __init__(self, checks, write=print):
        self._checks, self._write = checks, write
        self._made = self._failed = 0
        self._skipped = None
        self.ended = False

    def _case(self, good, text):
        self._made += 1
        self._failed += not good
        self._write(f"{'ok' if good else 'not ok'} {self._made} {text}")

    def take(self, line):
        """Handles a line; returns its mark, or None if it is no mark."""
        if line.startswith("ok - "):
            self._case(True, line[3:])
        elif line.startswith("not ok - "):
            self._case(False, line[7:])
        elif line == "@end":
            self.ended = True
        elif line.startswith("@skip "):
            self._skipped = line[6:]
        elif line.startswith("@"):
            return line[1:]
        elif line:
            self._write(f"# {line.removeprefix('# ')}")
        return None

    def finish(self, fault=None):
        """Whether the test passed. Checks that the guest did not make, and surplus ones, count as failed."""
        fault = fault or (None if self.ended else "the guest stopped before its end")
        for line in (fault or "").splitlines():
            self._write(f"# {line}")
        if self._skipped and fault is None and self._made == 0:
            self._write(f"1..0 # SKIP {self._skipped}")
            return True
        while self._made < self._checks:
            self._case(False, "- was not made")
        if self._made > self._checks:
            self._write(f"# {self._made} checks were made, expected {self._checks}")
        self._write(f"1..{self._made}")
        return fault is None and self._failed == 0 and self._made == self._checks
