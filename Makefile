# SPDX-License-Identifier: Apache-2.0
# A thin front for Meson: each target says what a person wants, tools/ and meson.build know how.
BUILD ?= build

.PHONY: all setup demo test bench lint format install clean
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

setup:                     ## install what is missing (Debian; as root or through sudo)
	@tools/setup

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) >/dev/null

demo: all                  ## three tenants share one device
	@tools/demo $(BUILD)

test: all                  ## every test; ends with "N passed, N failed"
	@tools/run-tests $(BUILD)

bench: all                 ## measure, print ratios, write bench/results/
	@bench/run $(BUILD)

lint: all                  ## include rules, format, static analysis, spelling
	@tools/lint $(BUILD)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@meson install -C $(BUILD)

clean:
	@rm -rf $(BUILD) build-*
