#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Owns: running the conformance suite on a provider of this build. Never: uses the user's daemon or state.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export FACET_RUNTIME_DIR="$place/run" FACET_STATE_DIR="$place/state"
# The fake libraries of one machine share its state in this folder.
export FAKE_CUDA_STATE="$place/cuda" FAKE_HIP_STATE="$place/hip"
"$FACET_BUILD_DIR/facet" provider check --deadline 30 "$FACET_BUILD_DIR/$1"
