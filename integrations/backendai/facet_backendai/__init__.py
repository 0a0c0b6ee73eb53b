# SPDX-License-Identifier: Apache-2.0
"""Facet as an accelerator plugin of Backend.AI.

Owns: nothing but the package's name. Never: loads libfacet or ai.backend by being imported.
"""
__version__ = "0.1.0"
