# SPDX-License-Identifier: Apache-2.0
"""Facet as an accelerator plugin of Backend.AI.

Owns: the package's version. Never: loads libfacet or ai.backend when it is imported.
"""
__version__ = "0.1.0"
