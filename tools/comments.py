# SPDX-License-Identifier: Apache-2.0
"""Separates source text into code and comments, for same-code and check-words.

Owns: the lexers of C and of Python. Never: opens a file.
"""
import ast
import io
import re
import tokenize

C_SUFFIXES = {".c", ".h", ".cc", ".cl", ".S"}
C_TOKEN = re.compile(r"""
    (?P<comment> /\*.*?\*/ | //[^\n]*)
  | (?P<raw> R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")
  | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
  | (?P<word> \.?[A-Za-z0-9_$](?:[eEpP][+-]|[A-Za-z0-9_$.])*)
  | (?P<space> [^\S\n]+)
  | (?P<other> .)
""", re.VERBOSE | re.DOTALL)
# Directives to tools in comments, which count as code.
DIRECTIVE = re.compile(r"NOLINT\w*(?:\([^)]*\))?|clang-format o(?:n|ff)|fall through")


def split_c(text):
    """(tokens, comments) of C code. The tokens include the end of each preprocessor directive, and differ for M(x) and
    M (x)."""
    tokens, comments = [], []
    directive, fresh, spaced = False, True, False
    for match in C_TOKEN.finditer(text.replace("\\\n", "")):
        kind, token = match.lastgroup, match[0]
        if kind == "mark":
            kind = "raw"
        if kind == "comment":
            comments.append(token)
            tokens += DIRECTIVE.findall(token)
            spaced = True
        elif kind == "space":
            spaced = True
        elif token == "\n":
            if directive:
                tokens.append("\n")
            directive, fresh, spaced = False, True, False
        else:
            if token == "#" and fresh:
                directive = True
            elif token == "(" and directive and tokens[-2:-1] == ["define"] and not spaced:
                token = "(adjacent"
            tokens.append(token)
            fresh = spaced = False
    return tokens, comments


def docstrings(tree):
    """The docstrings of a module, its classes and its functions, as expressions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            yield node.body[0]


def split_python(text):
    """(tokens, comments) of Python code: the syntax tree as text; and the comments with the docstrings.

    The docstrings stay in the tree only if the program reads its own docstring (__doc__).
    """
    tree = ast.parse(text)
    comments = [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    for node in docstrings(tree):
        comments.append(node.value.value)
        if "__doc__" not in text:
            node.value.value = ""
    return [ast.dump(tree)], comments


def split(name, text):
    """(tokens, comments) of a file. Its name shows its language; None when the language is neither C nor Python."""
    suffix = name[name.rfind("."):] if "." in name.rsplit("/", 1)[-1] else ""
    if suffix in C_SUFFIXES:
        return split_c(text)
    if suffix == ".py" or (not suffix and text.startswith("#!/usr/bin/python3")):
        return split_python(text)
    return None
