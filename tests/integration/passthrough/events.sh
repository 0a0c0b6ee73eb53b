# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Functions report errors, are plugged in, and are requested back by the host. An open function is removed only after it
# is closed.
edu_is_there() { [ -n "$(find_function 1234:11e8)" ]; }

# hold_until ADDRESS EVENT: opens the function in the background, until the event is reported
hold_until() {
    : >/tmp/hold # so that an earlier holder's output does not count
    passthrough-guest hold "$1" "$2" >/tmp/hold 2>&1 &
    holder=$!
    wait_for grep -q holding /tmp/hold
}
holder_ended() { [ ! -d "/proc/$holder" ] || grep -q "^State:.*zombie" "/proc/$holder/status"; }

# report_error ADDRESS: injects an unsupported request (bit 20) for the function, by the kernel's struct aer_error_inj: bus,
# device, function, a byte of padding, the uncorrectable errors, and 24 more bytes
report_error() {
    rest=${1#*:} # without the domain
    bus=${rest%%:*} rest=${rest#*:}
    { printf '%b' "\\x$bus\\x${rest%.*}\\x${rest#*.}\\0\\0\\0\\x10" && head -c 25 /dev/zero; } >/tmp/error
    dd if=/tmp/error of=/dev/aer_inject bs=32
}

net=$(find_function 8086:10d3)
check "a function that can report errors is bound to vfio-pci" bind "$net"
hold_until "$net" error
check "an error is reported for the function" report_error "$net"
check "the process that has it open is notified of the error" wait_for holder_ended
run_checks "error" cat /tmp/hold
wait "$holder"
check "the function is given back, to no driver" give_back "$net" none

check "there is no edu" [ -z "$(find_function 1234:11e8)" ]
mark plug
check "an edu appears" wait_for edu_is_there
edu=$(find_function 1234:11e8)
check "the edu is bound to vfio-pci" bind "$edu"
hold_until "$edu" request
mark unplug
check "the process that has edu open is asked to release it" wait_for holder_ended
run_checks "request" cat /tmp/hold
wait "$holder"
check "edu is removed once it is closed" wait_for is_absent "$edu"
mark gone

mark "plug again"
check "another edu appears" wait_for edu_is_there
edu=$(find_function 1234:11e8)
mark "unplug again"
check "an edu that no process has open is removed" wait_for is_absent "$edu"
