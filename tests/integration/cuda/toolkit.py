#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Say where a CUDA toolkit is: the folders of its headers and of libcudart_static.a, one a line; nothing without one.

Owns: the places that are searched, which are those of tools/check-cuda-coverage. Never: fails.
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
