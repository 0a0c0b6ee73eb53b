# SPDX-License-Identifier: Apache-2.0
# Short commands for Meson and the scripts in tools/, which do the work.
BUILD ?= build

# Targets run one after the other, with -j too, because "compile" needs what "setup" installs.
.NOTPARALLEL:
.PHONY: all compile check demo test test-long coverage gpu-suite bench lint format install clean setup setup-demo setup-test setup-bench
all: setup compile         ## build; ./build/facet works from the tree

compile:                   ## build with what is installed
	@tools/configure $(BUILD)
	@ninja -C $(BUILD) $(NINJAFLAGS)

demo: setup-demo compile   ## three tenants share one device
	@tools/demo $(BUILD)

check: setup-test          ## between two edits: format, spelling, the tree's rules, and the tests that are quick
	@tools/run-tests $(BUILD) --check

test: setup-test           ## every test, sanitizers and lint; ends with "N passed, N failed"
	@tools/run-tests $(BUILD) --full

test-long: setup-test      ## every test once, those with random steps or repeats with twenty times as many
	@tools/run-tests $(BUILD) --long

coverage: setup-test       ## which lines of each room the tests run, as a table
	@tools/coverage $(BUILD)

gpu-suite: all             ## on this machine's NVIDIA GPUs; skips with a reason where there is none
	@tests/gpu/run $(BUILD)

bench: setup-bench all     ## measure, print ratios, write tables to bench/results/
	@bench/run $(BUILD)

lint: setup-test all       ## include rules, format, static analysis, spelling
	@tools/lint --all $(BUILD)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@meson install -C $(BUILD)

clean:
	@rm -rf $(BUILD) $(BUILD)-*

setup:                     ## install what is missing (Debian; as root or through sudo)
	@tools/setup all

setup-demo:
	@tools/setup

setup-test:
	@tools/setup test
	@tools/kernel

setup-bench:
	@tools/setup bench
