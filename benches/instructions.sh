#!/usr/bin/env bash
# Counts instructions with callgrind, which a busy machine does not disturb: of each function of benches/micro, and of whole requests through
# the gateway, one after another. Each is done often and more often, and the difference divided, so that starting up does not count.
#
#   benches/instructions.sh                 all: some ten minutes after the build
#   benches/instructions.sh NAME...         only these functions, or `requests`
#
# Needs valgrind and, for whole requests, nginx; installs what is missing through apt-get, as root or with a sudo that asks nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
few=50
many=250

unset "${!TOLLGATE_@}"
PATH=$PATH:/usr/sbin

need() {
    command -v "$1" >/dev/null && return
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}
need valgrind valgrind

built=$(cargo bench --locked --bench micro --no-run --manifest-path "$root/Cargo.toml" 2>&1 | tee /dev/stderr | sed -nE 's/^ *Executable .*\((.*)\)$/\1/p')
[[ $built == /* ]] || built=$root/$built
wanted=("$@")
((${#wanted[@]})) || mapfile -t wanted < <("$built" names; echo requests)

# Instructions of doing something so many times; nothing where it cannot be done.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$built" count "$1" "$2" 2>&1 | sed -nE 's/.*Collected : ([0-9]+).*/\1/p'
}

requests=
echo "| function | instructions each |"
echo "|---|---|"
for name in "${wanted[@]}"; do
    [[ $name == requests ]] && requests=yes && continue
    less=$(instructions "$name" $few)
    more=$(instructions "$name" $many)
    if [[ $less && $more ]]; then
        echo "| $name | $(((more - less) / (many - few))) |"
    else
        echo "| $name | did not run |"
    fi
done
[[ -z $requests ]] || "$here/run.sh" --only instructions
