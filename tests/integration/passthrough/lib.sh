# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Functions for the scripts that run inside a virtual machine. A check prints one line; its command's output becomes
# comments.
devices=/sys/bus/pci/devices
wait_tries=600 # of 0.1 s each

print_as_comments() { sed 's/^/# /; s/^# # /# /'; }

# check NAME COMMAND...: checks that the command succeeds
check() {
    name=$1
    shift
    if said=$("$@" 2>&1); then echo "ok - $name"; else
        echo "not ok - $name"
        echo "# $* said:"
    fi
    [ -z "$said" ] || echo "$said" | print_as_comments
}

# check_refusal NAME FRAGMENT COMMAND...: checks that the command fails, with FRAGMENT in its output
check_refusal() {
    name=$1 fragment=$2
    shift 2
    if said=$("$@" 2>&1); then
        echo "not ok - $name"
        echo "# it succeeded"
    elif echo "$said" | grep -qF "$fragment"; then echo "ok - $name"; else
        echo "not ok - $name"
        echo "# '$fragment' is not in:"
    fi
    [ -z "$said" ] || echo "$said" | print_as_comments
}

# run_checks PREFIX COMMAND...: runs a command that prints its checks itself
run_checks() {
    prefix=$1
    shift
    "$@" 2>&1 | sed "s|^\(ok\|not ok\) - |&$prefix: |"
}

# with_way WAY COMMAND...: passthrough-guest opens functions by WAY, "group" or "cdev"
with_way() {
    way=$1
    shift
    env WAY="$way" "$@"
}

# mark NAME: makes the test outside the VM act. The action has begun when the next check waits for its effect.
mark() { echo "@$1"; }

# wait_for COMMAND...: repeats the command until it succeeds, or until a timeout
wait_for() {
    tries=$wait_tries
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        if [ $tries = 0 ]; then
            echo "# waited in vain: $*"
            return 1
        fi
        sleep 0.1
    done
}

# find_function VENDOR:DEVICE [NUMBER]: the address of the first function of that kind, or of a later one
find_function() {
    for found in "$devices"/*; do
        if [ "$(cat "$found/vendor"):$(cat "$found/device")" = "0x${1%:*}:0x${1#*:}" ]; then basename "$found"; fi
    done | sed -n "${2:-1}p"
}

driver_of() { if [ -e "$devices/$1/driver" ]; then basename "$(readlink "$devices/$1/driver")"; else echo none; fi; }
group_of() { basename "$(readlink "$devices/$1/iommu_group")"; }
has_driver() { [ "$(driver_of "$1")" = "$2" ]; }
is_present() { [ -e "$devices/$1" ]; }
is_absent() { [ ! -e "$devices/$1" ]; }

# bind ADDRESS: binds the function to vfio-pci, as Facet's transaction does
bind() {
    echo vfio-pci >"$devices/$1/driver_override"
    if [ -e "$devices/$1/driver" ]; then echo "$1" >"$devices/$1/driver/unbind"; fi
    echo "$1" >/sys/bus/pci/drivers_probe
    has_driver "$1" vfio-pci
}

# give_back ADDRESS DRIVER: gives the function back to the driver that it had before, or to "none"
give_back() {
    echo >"$devices/$1/driver_override"
    echo "$1" >"$devices/$1/driver/unbind"
    if [ "$2" != none ]; then echo "$1" >/sys/bus/pci/drivers_probe; fi
    has_driver "$1" "$2"
}
