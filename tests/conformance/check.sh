#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Owns: running the conformance suite on a provider of this build. Never: uses a daemon or a state that is the user's.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export FACET_RUNTIME_DIR="$place/run" FACET_STATE_DIR="$place/state"
# Two fake libraries of one machine share what it is.
export FAKE_CUDA_STATE="$place/cuda" FAKE_HIP_STATE="$place/hip"
"$FACET_BUILD_DIR/facet" provider check --deadline 30 "$FACET_BUILD_DIR/$1"
