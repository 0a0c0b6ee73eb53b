# SPDX-License-Identifier: Apache-2.0
"""Random kernels in OpenCL C with defined results: if two compilers' results differ, one of the compilers is at fault.

Owns: the grammar. No behaviour is undefined: signed numbers are added as unsigned ones, divisors are tested first or
are odd, shifts and indices are reduced to the valid range, everything is written before it is read, each item writes to
places of its own, and all items reach each barrier.
Never: uses inexact floating point, or behaviour that an implementation may choose.
"""
import random
from dataclasses import dataclass

WORDS = 6  # variables of type uint
PRIVATE = 32  # elements of the private array, more than any processor has lanes
RECORDS = 3  # structs
RESULTS = 6  # numbers that each item writes
# Sizes of launches, and of their groups.
SHAPES = (((64,), (16,)), ((51,), (17,)), ((40,), (5,)), ((96,), (32,)), ((16, 6), (8, 3)), ((14, 6), (7, 2)),
          ((8, 4, 2), (4, 2, 2)), ((24, 2), (24, 1)), ((33,), (1,)))

PRELUDE = """
struct record { uint a; short b; uchar c; ulong d; uint2 e; uint f[3]; };
int divided(int a, int b) { return b == 0 || (a == INT_MIN && b == -1) ? a : a / b; }
int rest_of(int a, int b) { return b == 0 || (a == INT_MIN && b == -1) ? b : a % b; }
uint folded(struct record r) { return r.a ^ (uint)(ushort)r.b * 3u ^ r.c ^ (uint)(r.d >> 32) ^ (uint)r.d ^ r.e.x + r.e.y
    ^ r.f[0] * 5u ^ r.f[1] ^ r.f[2]; }
uint summed(const uint *p, uint count) { uint sum = 0; for (uint i = 0; i < count; i++) sum = sum * 31u + p[i]; return sum; }
"""


@dataclass
class Kernel:
    name: str
    text: str
    size: tuple
    group: tuple


class Writer:
    """Writes the kernel of one seed."""

    def __init__(self, seed):
        self.random, self.seed = random.Random(seed), seed
        self.lines, self.depth, self.loops = [], 1, 0

    # --- expressions, of type uint unless stated otherwise; `depth` is how many more levels may nest

    def one_of(self, *made):
        return self.random.choice(made)()

    def word(self):
        return f"v{self.random.randrange(WORDS)}"

    def constant(self):
        return f"{self.random.choice((0, 1, 2, 3, 7, 8, 31, 255, 65535, 0x7fffffff, 0x80000000, 0xffffffff, self.random.getrandbits(32)))}u"

    def leaf(self):
        index = self.random.randrange(RECORDS)
        return self.one_of(self.word, self.word, self.word, self.constant, lambda: "item", lambda: "place",
                           lambda: f"q{self.random.randrange(2)}.s{self.random.randrange(4)}",
                           lambda: f"r[{index}].{self.random.choice(('a', 'e.x', 'e.y', 'f[1]'))}",
                           lambda: f"(uint)w{self.random.randrange(2)}", lambda: f"(uint)n{self.random.randrange(2)}",
                           lambda: f"(uint)r[{index}].{self.random.choice('bcd')}")

    def expression(self, depth=3):
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        return self.one_of(*[lambda: self.simple(depth)] * 4, lambda: self.division(depth), lambda: self.call(depth),
                           lambda: self.element(depth), lambda: self.conversion(depth), lambda: self.choice(depth),
                           lambda: self.wide(depth))

    def simple(self, depth):
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        operator = self.random.choice(("+", "-", "*", "&", "|", "^", "<<", ">>"))
        return f"({a} {operator} ({b} & 31u))" if operator in ("<<", ">>") else f"({a} {operator} {b})"

    def division(self, depth):
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        return self.random.choice((f"({a} / ({b} | 1u))", f"({a} % ({b} | 1u))", f"(uint)divided((int){a}, (int){b})",
                                   f"(uint)rest_of((int){a}, (int){b})", f"(uint)((int){a} >> ({b} & 31u))",
                                   f"({b} ? {a} / {b} : {a})" if depth < 3 else a))

    def call(self, depth):
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        return self.random.choice((f"rotate({a}, {b})", f"mul_hi({a}, {b})", f"min({a}, {b})", f"max({a}, {b})",
                                   f"popcount({a})", f"clz({a})", f"abs_diff({a}, {b})", f"add_sat({a}, {b})",
                                   f"sub_sat({a}, {b})", f"hadd({a}, {b})", f"bitselect({a}, {b}, 0xf0f0f0f0u)",
                                   f"(uint)abs((int){a} >> 1)", f"folded(r[{self.random.randrange(RECORDS)}])",
                                   f"summed(p, {a} % 8u)", f"helped_{self.seed}({a}, {b})",
                                   f"(uint)((float)({a} & 255u) * 3.0f + 1.0f)"))

    def element(self, depth):
        index, near = self.expression(depth - 1), self.random.randrange(PRIVATE)
        return self.random.choice((f"p[{index} % {PRIVATE}u]", f"p[(item + {near}u) % {PRIVATE}u]",
                                   f"p[(item ^ {near}u) % {PRIVATE}u]", f"p[min(item, {near}u)]",
                                   f"p[(place >> 1) % {PRIVATE}u]", f"given[{index} % total]",
                                   f"r[{index} % {RECORDS}u].f[{self.leaf()} % 3u]",
                                   f"((const uint *)&q0)[{index} & 3u]"))

    def conversion(self, depth):
        a = self.expression(depth - 1)
        return f"(uint)({self.random.choice(('char', 'uchar', 'short', 'ushort', 'long', 'ulong'))}){a}"

    def choice(self, depth):
        return f"({self.condition()} ? {self.expression(depth - 1)} : {self.expression(depth - 1)})"

    def wide(self, depth):
        return (f"(uint)(({self.long(depth - 1)} {self.random.choice('+-*^')} (ulong){self.expression(depth - 1)})"
                f" >> {self.random.randrange(64)})")

    def long(self, depth):
        a = self.expression(max(depth - 1, 0))
        return self.random.choice((f"w{self.random.randrange(2)}", f"((ulong){a} << 17)", f"(w0 / ((ulong){a} | 1u))",
                                   f"(w1 % ((ulong){a} + 1u))", f"(ulong)(long)(int){a}"))

    def vector(self, depth=2):
        """An expression of type uint4."""
        q = f"q{self.random.randrange(2)}"
        if depth == 0:
            return q
        a, b = self.vector(depth - 1), self.vector(depth - 1)
        swizzle = "".join(self.random.choice("xyzw") for _ in range(4))
        return self.random.choice((f"({a} + {b})", f"({a} * {b})", f"({a} ^ {b})", f"{q}.{swizzle}",
                                   f"({a} >> ({b} & 31u))", f"({a} / ({b} | 1u))", f"({a} % ({b} | 1u))",
                                   f"(uint4)({self.expression(1)})", f"max({a}, {b})", f"rotate({a}, {b})",
                                   f"(uint4)({self.leaf()}, {self.leaf()}, {self.leaf()}, {self.leaf()})",
                                   f"as_uint4({a} < {b})", f"select({a}, {b}, {q} > 99u)",
                                   f"convert_uint4(convert_uchar4({a} & 255u))", f"(uint4)({q}.hi, {q}.lo)"))

    def condition(self):
        a, b = self.expression(1), self.leaf()
        return self.random.choice((f"({a} {self.random.choice(('<', '>', '==', '!=', '<=', '>='))} {b})",
                                   f"((int){a} {self.random.choice(('<', '>'))} (int){b})", f"({a} & 1u)",
                                   f"(place % {self.random.randrange(2, 7)}u == {self.random.randrange(2)}u)",
                                   f"({a} & 1u && {b} > 7u)", f"any(q0 == q{self.random.randrange(2)}.wzyx)"))

    # --- statements

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def block(self, head, depth, count=3):
        self.line(head + " {")
        self.depth += 1
        for _ in range(self.random.randrange(1, count + 1)):
            self.statement(depth - 1)
        self.depth -= 1
        self.line("}")

    def assignment(self):
        random_, index = self.random, self.expression(1)
        self.line(random_.choice((
            f"{self.word()} = {self.expression()};", f"{self.word()} {random_.choice('+-*^|&')}= {self.expression(2)};",
            f"w{random_.randrange(2)} = {self.long(2)} ^ (ulong){self.expression(2)} << 9;",
            f"n{random_.randrange(2)} = (int){self.expression()};", f"q{random_.randrange(2)} = {self.vector()};",
            f"q{random_.randrange(2)}.s{random_.randrange(4)} = {self.expression(2)};",
            f"q{random_.randrange(2)}.{random_.choice(('xz', 'lo', 'hi', 'wy'))} = r[{random_.randrange(RECORDS)}].e;",
            f"p[{index} % {PRIVATE}u] = {self.expression(2)};", f"p[{random_.randrange(PRIVATE)}] += {self.expression(2)};",
            f"r[{index} % {RECORDS}u].{random_.choice(('a', 'b', 'c', 'd', 'e.x', 'e.y', 'f[0]', 'f[2]'))} = {self.expression(2)};",
            f"r[{random_.randrange(RECORDS)}].f[{index} % 3u] = {self.expression(2)};",
            f"r[{random_.randrange(RECORDS)}].e = {self.vector(1)}.{random_.choice(('xy', 'zx', 'odd', 'even'))};",
            f"r[{random_.randrange(RECORDS)}] = r[{random_.randrange(RECORDS)}];",
            f"made[place * {RESULTS}u + {random_.randrange(RESULTS)}u] = {self.expression(2)};",
        )))

    def loop(self, depth):
        counter, self.loops = f"i{self.loops}", self.loops + 1
        bound = self.random.choice((f"{self.random.randrange(1, 6)}u", f"({self.leaf()} & 7u)", "(place & 3u)"))
        self.line(f"const uint {counter}_end = {bound};")  # fixed, since the loop may change the variables of `bound`
        self.line(f"for (uint {counter} = 0; {counter} < {counter}_end; {counter}++) {{")
        self.depth += 1
        if self.random.random() < 0.4:
            self.line(f"if ({self.condition()}) {self.random.choice(('break', 'continue'))};")
        for _ in range(self.random.randrange(1, 4)):
            self.statement(depth - 1)
        self.line(f"{self.word()} += {counter} * {self.leaf()};")
        self.depth -= 1
        self.line("}")

    def guarded_division(self):
        """A division behind a test of its divisor, so that some lanes must not divide."""
        divisor, target = self.word(), self.word()
        operator = self.random.choice("/%")
        self.line(self.random.choice((
            f"if ({divisor} != 0u) {target} = {self.expression(2)} {operator} {divisor};",
            f"if ((int){divisor} > 0) {target} = (uint)((int){self.expression(2)} {operator} (int){divisor});",
            f"if (w0 > 5u) w1 = w1 {operator} w0;",
            f"if (all(q1 != 0u)) q0 = q0 {operator} q1;",
            f"if ((char){divisor} > 1) {target} = (uint)((char){target} {operator} (char){divisor});",
        )))

    def switch(self, depth):
        self.line(f"switch ({self.expression(1)} & 3u) {{")
        for case in ("case 0:", "case 2:", "default:"):
            self.block(case, depth, 1)
            if self.random.random() < 0.7:
                self.line("    break;")
        self.line("}")

    def statement(self, depth):
        made = self.random.random()
        if depth <= 0 or made < 0.5:
            self.assignment()
        elif made < 0.62:
            self.guarded_division()
        elif made < 0.76:
            self.block(f"if ({self.condition()})", depth)
            if self.random.random() < 0.5:
                self.block("else", depth)
        elif made < 0.9:
            self.loop(depth)
        else:
            self.switch(depth)

    def exchange(self):
        """Each item writes to its own element of local memory; all wait; each reads any element; all wait again."""
        self.line(f"near[item] = {self.expression(2)};")
        if self.random.random() < 0.5:
            self.line(f"if ({self.condition()}) atomic_add(&count, {self.leaf()});")
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")
        self.line(f"{self.word()} ^= near[{self.expression(1)} % items];")
        self.line(f"{self.word()} += count;")
        if self.random.random() < 0.5:
            self.block(f"if ({self.condition()})", 2)
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")

    def phase(self):
        for _ in range(self.random.randrange(1, 5)):
            self.statement(3)
        if self.random.random() < 0.25:
            counter, self.loops = f"i{self.loops}", self.loops + 1
            self.line(f"for (uint {counter} = 0; {counter} < {self.random.randrange(2, 4)}u; {counter}++) {{")
            self.depth += 1
            self.exchange()
            self.depth -= 1
            self.line("}")
        else:
            self.exchange()

    def begin(self):
        self.line("const uint item = get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2));")
        self.line("const uint items = get_local_size(0) * get_local_size(1) * get_local_size(2);")
        self.line("const uint place = get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));")
        self.line("const uint total = get_global_size(0) * get_global_size(1) * get_global_size(2);")
        for i in range(WORDS):
            self.line(f"uint v{i} = given[(place * {2 * i + 1}u + {i}u) % total]{self.random.choice(('', ' & 15u', ' >> 20'))};")
        self.line("ulong w0 = (ulong)v0 << 32 | v1, w1 = (ulong)v2 * v3;")
        self.line("int n0 = (int)v4, n1 = (int)(v5 & 7u) - 3;")
        self.line("uint4 q0 = (uint4)(v0, v1, v2, item), q1 = (uint4)(place, v3 & 3u, v4, 1u);")
        self.line(f"uint p[{PRIVATE}];")
        self.line(f"for (uint i = 0; i < {PRIVATE}u; i++) p[i] = given[(place + i) % total] ^ i;")
        self.line(f"struct record r[{RECORDS}];")
        self.line(f"for (uint i = 0; i < {RECORDS}u; i++) {{ r[i].a = v0 + i; r[i].b = (short)v1; r[i].c = (uchar)v2; r[i].d = w1 ^ i; "
                  "r[i].e = (uint2)(v3, i); for (uint j = 0; j < 3u; j++) r[i].f[j] = v4 * j; }")
        self.line("if (item == 0u) count = 0u;")
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")

    def end(self):
        self.line(f"uint sum = summed(p, {PRIVATE}u);")
        for i in range(RECORDS):
            self.line(f"sum = sum * 7u + folded(r[{i}]);")
        words = " ^ ".join(f"rotate(v{i}, {5 * i}u)" for i in range(WORDS))
        self.line(f"made[place * {RESULTS}u] = {words};")
        self.line(f"made[place * {RESULTS}u + 1u] = sum;")
        self.line(f"made[place * {RESULTS}u + 2u] = (uint)w0 ^ (uint)(w0 >> 32) ^ (uint)w1 * 3u ^ (uint)(w1 >> 32);")
        self.line(f"made[place * {RESULTS}u + 3u] = q0.x ^ q0.y * 3u ^ q0.z * 5u ^ q0.w * 7u ^ q1.x ^ q1.y + q1.z - q1.w;")
        self.line(f"made[place * {RESULTS}u + 4u] ^= (uint)n0 * 9u ^ (uint)n1;")

    def helper(self):
        limit = self.random.randrange(1, 9)
        return (f"uint helped_{self.seed}(uint a, uint b) {{\n"
                f"    for (uint i = 0; i < (b & {limit}u); i++) {{\n"
                f"        if (a % (i + 2u) == {self.random.randrange(2)}u) a = a * 3u + i;\n"
                f"        else if (a > b) return a ^ {self.constant()};\n"
                f"        a {self.random.choice(('>>= 1', '-= i', '^= b << (i & 31u)'))};\n    }}\n    return a - b;\n}}\n")

    def write(self):
        size, group = self.random.choice(SHAPES)
        items = 1
        for extent in group:
            items *= extent
        self.begin()
        for _ in range(self.random.randrange(1, 4)):
            self.phase()
        for _ in range(self.random.randrange(4)):
            self.statement(3)
        self.end()
        name, body = f"seed_{self.seed}", "\n".join(self.lines)
        text = (f"{self.helper()}kernel void {name}(global const uint *given, global uint *made) {{\n"
                f"    local uint near[{items}], count;\n{body}\n}}\n")
        return Kernel(name, text, size, group)


def kernel(seed):
    return Writer(seed).write()
