#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Print the folders of a CUDA toolkit's headers and of its libcudart_static.a, one a line; nothing without a toolkit.

Owns: the choice of the newest complete toolkit that tools/check-cuda-coverage finds. Never: fails without a toolkit.
"""
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

sys.dont_write_bytecode = True
TOOL = Path(__file__).resolve().parents[3] / "tools/check-cuda-coverage"


def main():
    loader = importlib.machinery.SourceFileLoader("coverage", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    for toolkit in reversed(module.toolkits()):
        for library in [*toolkit.glob("lib*/libcudart_static.a"), *toolkit.glob("targets/*/lib/libcudart_static.a")]:
            if (toolkit / "include/cuda_runtime_api.h").is_file():
                print(toolkit / "include", library.parent, sep="\n")
                return


if __name__ == "__main__":
    main()
