# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A driver does not release a function: one process has the function open and ignores requests, while another unbinds
# vfio-pci. The kernel keeps the function's lock, and blocks each process that reads the function's override.
gpu=$(find_function 1af4:1050) # virtio's display: bound by hand
edu=$(find_function 1234:11e8) # bound by Facet
nvme=$(find_function 1b36:0010)
export FACET_STATE_DIR=/tmp/state FACET_RUNTIME_DIR=/tmp/run
mkdir -p /tmp/state /tmp/run

file_contains() { grep -qF "$1" "$2"; }
process_is_in_state() { grep -q "^State:.*$2" "/proc/$1/status"; }
process_has_ended() { [ ! -d "/proc/$1" ] || process_is_in_state "$1" Z; }

# hold_open ADDRESS: opens the function in the background until it is killed; sets $holder
hold_open() {
    passthrough-guest hold "$1" nothing >"/tmp/hold-$1" 2>&1 &
    holder=$!
    wait_for file_contains holding "/tmp/hold-$1"
}

# take_from_vfio ADDRESS: unbinds vfio-pci in the background; sets $taker. The kernel's unbinding waits for the process
# that has the function open. A signal does not end that wait: after it, the kernel waits uninterruptibly.
take_from_vfio() {
    sh -c "echo $1 >/sys/bus/pci/drivers/vfio-pci/unbind" &
    taker=$!
    wait_for has_driver "$1" none
    kill -9 "$taker"
}

# check_return NAME COMMAND...: whether the command returns while others hang. Its output goes through a pipe, whose end no
# other process may keep open.
check_return() {
    name=$1
    shift
    rm -f /tmp/returned
    { "$@" 2>&1; echo "exit $?"; } | cat >/tmp/said && : >/tmp/returned &
    check "$name returns" wait_for test -e /tmp/returned
    print_as_comments </tmp/said
}
check_output() { check "$1" file_contains "$2" /tmp/said; }

# count_readers STATE: the children of `facet` in that state: D hangs in the kernel, Z was not reaped
count_readers() { grep -l "^Name:.*facet$" /proc/[0-9]*/status 2>/dev/null | xargs grep -l "^State:.*$1" 2>/dev/null | wc -l; }
reader_count_is() { [ "$(count_readers "$1")" = "$2" ]; }

# ---- before ----
check "nvme has its driver" wait_for has_driver "$nvme" nvme
check "the GPU is bound by hand" bind "$gpu"
check "edu is bound by Facet" facet pci bind "$edu"
facet pci watch --all --timeout 600 --interval 0.3 >/tmp/watch 2>&1 &
watcher=$!
wait_for file_contains watching /tmp/watch
hold_open "$gpu"
gpu_holder=$holder
hold_open "$edu"
edu_holder=$holder

# ---- the kernel hangs ----
take_from_vfio "$gpu"
gpu_taker=$taker
take_from_vfio "$edu"
edu_taker=$taker
check "the process that takes the GPU away cannot be killed" wait_for process_is_in_state "$gpu_taker" D
cat "$devices/$gpu/driver_override" >/dev/null &
cat=$!
check "a process that reads the GPU's override hangs as well" wait_for process_is_in_state "$cat" D
check "the watch sees the GPU" wait_for file_contains "$gpu stuck" /tmp/watch
check "the watch sees edu" wait_for file_contains "$edu stuck" /tmp/watch

waits_for_gpu="is stuck: the kernel unbinds its driver, and waits for process $gpu_holder (passthrough-gue), which has /dev/vfio/$(group_of "$gpu") open"
waits_for_edu="is stuck: the kernel unbinds its driver, and waits for process $edu_holder (passthrough-gue), which has /dev/vfio/$(group_of "$edu") open"
check_return scan facet pci scan
check_output "the scan names the process that the GPU waits for" "stop: $waits_for_gpu"
check_output "the scan says what to do" "end the process that has it open"
check_return "scan of all" facet pci scan --all
check_output "the scan of all names the process that edu waits for" "stop: $waits_for_edu"
check "the scan of all reads nvme in full" grep -q "^$nvme .*storage nvme .*yes" /tmp/said
check_return "scan as JSON" facet pci scan --json
check_output "the scan as JSON has the reason" '"reason": "stuck"'
check_return show facet pci show "$gpu"
check_output "show names the process that the GPU waits for" "$waits_for_gpu"
check_output "show lists the attributes that are unknown" "override (stuck)"
check_return "show of another" facet pci show "$nvme"
check "show reads nvme in full" sh -c "grep -q '^driver  *nvme' /tmp/said && ! grep -q stuck /tmp/said"
check_return plan facet pci plan --headless "$gpu"
check_output "the plan says why the GPU cannot be bound" "$waits_for_gpu"
check_return bind facet pci bind --headless "$gpu"
check_output "bind refuses the GPU" "$gpu $waits_for_gpu"
check_output "bind exits with status 1" "exit 1"
check_return unbind facet pci unbind "$edu"
check_output "unbind refuses edu" "$edu $waits_for_edu"
check_return state facet pci state
check "state shows both as stuck" [ "$(grep -c ' stuck ' /tmp/said)" = 2 ]
check_return doctor facet pci doctor
check_output "the doctor names the function and the process" "drivers      $gpu $waits_for_gpu"
check_return metrics facet metrics --pci
check_output "the metrics show the stuck GPU" "facet_pci_stuck{address=\"$gpu\"} 1"
check_return recover facet pci recover
check_output "recovery leaves edu alone" "stuck $edu: $waits_for_edu"
check_return "bind of another" facet pci bind "$nvme"
check_output "nvme is bound" "ready vfio-pci nvme"
check_return "unbind of another" facet pci unbind "$nvme"
check_output "nvme is unbound" "$nvme is with nvme again"
wait_for has_driver "$nvme" nvme

# ---- leftovers ----
check "after all these commands one reader hangs for each stuck function" reader_count_is D 2
check "no zombie is left" reader_count_is Z 0

# ---- the kernel returns ----
kill "$gpu_holder" "$edu_holder"
wait "$gpu_holder" "$edu_holder" "$gpu_taker" "$edu_taker" "$cat" 2>/dev/null
check "the readers end" wait_for reader_count_is D 0
check "the watch sees that the GPU is released" wait_for file_contains "$gpu released" /tmp/watch
check "the watch sees that edu is released" wait_for file_contains "$edu released" /tmp/watch
check "the watch goes on" [ "$(ls "/proc/$watcher/exe")" ]
check "the watch leaves no zombie" wait_for reader_count_is Z 0
kill "$watcher"
wait "$watcher" 2>/dev/null
print_as_comments </tmp/watch
check_return "scan of all" facet pci scan --all
check "nothing is stuck any more" sh -c "! grep -q stuck /tmp/said"
check "edu is given back" facet pci unbind "$edu"
check "the GPU is bound" facet pci bind --headless "$gpu"
check "the GPU can be opened" passthrough-guest open "$gpu"
