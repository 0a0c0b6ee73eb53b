# SPDX-License-Identifier: Apache-2.0
# bash completion for facet(1): commands, options, devices and virtual GPUs.
# Asking for names never starts a daemon.

_facet_members()  # COMMAND... MEMBER: prints this member of every object in the JSON that "facet COMMAND" prints
{
    local member=${*: -1}

    "${COMP_WORDS[0]}" "${@:1:$#-1}" --json 2>/dev/null |
        sed -n "s/^ *\"$member\": \"\([^\"]*\)\",\{0,1\}\$/\1/p"
}

_facet_vgpus()
{
    _facet_members vgpu list --no-start name
}

_facet_reservations()
{
    _facet_members place list --no-start name
}

_facet_devices()
{
    _facet_members devices id
}

_facet_options()  # COMMAND...: prints the long options that the command's help shows
{
    "${COMP_WORDS[0]}" help "$@" 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u
}

# Completes the value of the option before the cursor; fails if the word before the cursor is no option with a value.
_facet_value()
{
    case $prev in
        -d | --device) mapfile -t COMPREPLY < <(compgen -W "$(_facet_devices)" -- "$cur") ;;
        --vgpu) mapfile -t COMPREPLY < <(compgen -W "$(_facet_vgpus)" -- "$cur") ;;
        --mode) mapfile -t COMPREPLY < <(compgen -W 'shared soft hard partitioned' -- "$cur") ;;
        --target) mapfile -t COMPREPLY < <(compgen -W "$(_facet_members compile --list-targets target)" -- "$cur") ;;
        --std) mapfile -t COMPREPLY < <(compgen -W 'CL1.0 CL1.1 CL1.2 CL3.0' -- "$cur") ;;
        -O) mapfile -t COMPREPLY < <(compgen -W '0 1 2 3' -- "$cur") ;;
        --kernel | --arg | --global | --group | --offset | --print | --timeout | -D) COMPREPLY=() ;;
        --reservation) mapfile -t COMPREPLY < <(compgen -W "$(_facet_reservations)" -- "$cur") ;;
        --priority) mapfile -t COMPREPLY < <(compgen -W 'low normal high' -- "$cur") ;;
        --seccomp | --report | -o | --output | -I) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        --to) mapfile -t COMPREPLY < <(compgen -W 'docker oci cdi env' -- "$cur") ;;
        --schema) mapfile -t COMPREPLY < <(compgen -W 'node workload' -- "$cur") ;;
        --cdi) COMPREPLY=() ;;
        --cgroup) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        --pid) mapfile -t COMPREPLY < <(cd /proc && compgen -G '[0-9]*' | grep "^$cur") ;;
        -m | --memory | -c | --compute | --name | --interval) COMPREPLY=() ;;
        *) return 1 ;;
    esac
}

# Prints the index in COMP_WORDS, where colons separate words too, at which the command of "facet run" begins; 0 if the
# cursor is before the command.
_facet_run_command()
{
    local index=2

    while ((index < COMP_CWORD)); do
        case ${COMP_WORDS[index]} in
            --) echo $((index + 1)); return ;;
            -d | -m | -c | --device | --memory | --compute | --mode | --template | --priority | --idle-freeze | --name | --reservation | --vgpu | --report)
                ((index += 2))
                [[ ${COMP_WORDS[index]} == :* ]] && ((index += 2))
                ;;
            -*) ((index += 1)) ;;
            *) echo "$index"; return ;;
        esac
    done
    echo 0
}

_facet_run()
{
    local start

    start=$(_facet_run_command)
    if ((start > 0)) && declare -F _command_offset >/dev/null; then
        _command_offset "$start"
    elif ((start > 0)); then
        mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
    elif _facet_value; then
        return
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_facet_options run)" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    fi
}

_facet_vgpu()
{
    local verb=${words[2]}

    if ((cword == 2)); then
        mapfile -t COMPREPLY < <(compgen -W 'create list show set freeze resume destroy' -- "$cur")
        return
    fi
    _facet_value && return
    case $cur:$verb in
        -*) mapfile -t COMPREPLY < <(compgen -W "$(_facet_options vgpu "$verb")" -- "$cur") ;;
        *:show | *:set | *:freeze | *:resume | *:destroy)
            mapfile -t COMPREPLY < <(compgen -W "$(_facet_vgpus)" -- "$cur") ;;
    esac
}

_facet_compile()  # COMMAND...: completes an option of the command, or the path of the source or image
{
    if _facet_value; then
        return
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_facet_options "$@")" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}

_facet_place()
{
    case $prev:$cur in
        --strategy:*) mapfile -t COMPREPLY < <(compgen -W 'evenly fill' -- "$cur") ;;
        --affinity:*) mapfile -t COMPREPLY < <(compgen -W 'none interleaved prefer-single-node' -- "$cur") ;;
        --render:*) mapfile -t COMPREPLY < <(compgen -W 'docker oci cdi environment' -- "$cur") ;;
        --policy:*) mapfile -t COMPREPLY < <(compgen -W "$_facet_policies" -- "$cur") ;;
        --nodes:* | --jobs:* | --placed:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        --slot:* | --name:* | --job:*) COMPREPLY=() ;;
        *:-*)
            if [[ ${words[2]} == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$(_facet_options place)" -- "$cur")
            else
                mapfile -t COMPREPLY < <(compgen -W "$(_facet_options place "${words[2]}")" -- "$cur")
            fi
            ;;
        *)
            case $cword:${words[2]} in
                2:*) mapfile -t COMPREPLY < <(compgen -W 'list show release fleet replay' -- "$cur") ;;
                *:show | *:release) mapfile -t COMPREPLY < <(compgen -W "$(_facet_reservations)" -- "$cur") ;;
                *:replay) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
            esac
            ;;
    esac
}

_facet_provider()
{
    case $prev:$cur in
        --only:*) mapfile -t COMPREPLY < <(compgen -W "$_facet_groups" -- "$cur") ;;
        --deadline:*) COMPREPLY=() ;;
        *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_facet_options provider "${words[2]}")" -- "$cur") ;;
        *) [[ ${words[2]} == check ]] && mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

_facet_simulate()
{
    case $prev:$cur in
        --policy:*) mapfile -t COMPREPLY < <(compgen -W "$_facet_policies all" -- "$cur") ;;
        --nodes:* | --jobs:* | --plot:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        --seeds:* | --seed-base:* | --load:* | --migrate:* | --stretch:* | --threads:*) COMPREPLY=() ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$(_facet_options simulate)" -- "$cur") ;;
    esac
}

_facet_spec()
{
    case ${words[2]}:$cur in
        *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_facet_options spec "${words[2]}")" -- "$cur") ;;
        schema:*) mapfile -t COMPREPLY < <(compgen -W 'node workload' -- "$cur") ;;
        validate:* | render:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

_facet_pci_functions()  # prints the addresses of this machine's PCI functions
{
    local path

    for path in /sys/bus/pci/devices/*; do echo "${path##*/}"; done
}

_facet_pci()
{
    local persist=()

    [[ ${words[2]} == persist ]] && persist=("${words[3]}")
    case $prev:$cur in
        --qmp:* | --romfile:* | --root:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        --owner:*) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
        --driver:* | --port:* | --first-port:* | --clique:* | --segment:* | --qemu-version:* | --libvirt-version:*) COMPREPLY=() ;;
        persist:*) mapfile -t COMPREPLY < <(compgen -W 'add remove plan apply assert undo' -- "$cur") ;;
        *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_facet_options pci "${words[2]}" "${persist[@]}")" -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$(_facet_pci_functions)" -- "$cur") ;;
    esac
}

_facet()
{
    local cur prev words cword
    local _facet_groups='entry device topology modes partition limit metrics container memory mapping execution math snapshot threads'
    local _facet_policies='random first_fit best_fit dot_product gpu_packing gpu_clustering fgd facet'
    local _facet_pci_verbs='scan show plan bind unbind attach detach state recover persist watch doctor'
    local commands='devices run vgpu compile kernel top metrics spec pci place simulate provider config version help'

    # bash-completion joins words such as "opencl:0" again, which bash splits; without it they stay split.
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n : cur prev words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
        cur=${words[cword]} prev=${words[cword - 1]}
    fi
    COMPREPLY=()
    case $cword:${words[1]} in
        1:*) mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$cur") ;;
        *:run) _facet_run ;;
        *:vgpu) _facet_vgpu ;;
        *:compile) _facet_compile compile ;;
        2:kernel) mapfile -t COMPREPLY < <(compgen -W 'show run' -- "$cur") ;;
        *:kernel) _facet_compile kernel "${words[2]}" ;;
        *:place) _facet_place ;;
        2:provider) mapfile -t COMPREPLY < <(compgen -W 'list check' -- "$cur") ;;
        2:spec) mapfile -t COMPREPLY < <(compgen -W 'show validate schema render' -- "$cur") ;;
        *:spec) _facet_value || _facet_spec ;;
        2:pci) mapfile -t COMPREPLY < <(compgen -W "$_facet_pci_verbs" -- "$cur") ;;
        *:pci) _facet_value || _facet_pci ;;
        2:help) mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur") ;;
        *:provider) _facet_provider ;;
        *:simulate) _facet_simulate ;;
        *:help) ;;
        *) _facet_value || mapfile -t COMPREPLY < <(compgen -W "$(_facet_options "${words[1]}")" -- "$cur") ;;
    esac
    declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$cur"
    return 0
}
complete -F _facet facet
