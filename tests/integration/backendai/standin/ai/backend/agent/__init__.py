# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Backend.AI's package ai.backend.agent, which makes the adapter's imports work. Has no code."""
