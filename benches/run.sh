#!/usr/bin/env bash
# Measures the gateway with its limits on against nginx, and prints one table; see benches/README.md.
#
#   benches/run.sh                       all rows: about five minutes, after the build
#   benches/run.sh --only embedded       rows whose names begin so; may be repeated
#   benches/run.sh --seconds 10          longer windows (4 s)
#   benches/run.sh --trace FILE          arrivals and sizes of the ceiling row from a trace
#   benches/run.sh --litellm             compare with LiteLLM from PyPI as well, in a virtual environment of its own
#   benches/run.sh --json FILE           the table as JSON, too
#   benches/run.sh --keep                keep configurations, logs and books
#   benches/run.sh --no-build            with the programs that are there
#
# Installs what is missing: nginx and redis-server (for --litellm python3-venv) through apt-get, as root or with a sudo that asks nothing.
# Serves and asks on loopback only. Ends with 0: every bar kept; 1: one missed; 2: a row could not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

build=yes
litellm=
pass=()
while (($#)); do
    case $1 in
        --litellm) litellm=yes ;;
        --no-build) build= ;;
        --trace | --json)
            (($# > 1)) || { echo "$1 needs a file" >&2 && exit 64; }
            pass+=("$1" "$(realpath -m "$2")")
            shift
            ;;
        *) pass+=("$1") ;;
    esac
    shift
done

# The gateways take every TOLLGATE_ variable for a setting; those of whoever runs this are not meant for them.
unset "${!TOLLGATE_@}"
PATH=$PATH:/usr/sbin:/usr/local/sbin

install_packages() {
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    echo "installing $*" >&2
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# A row whose program is missing says so; only nginx is needed by all.
command -v nginx >/dev/null || install_packages nginx || { echo "nginx is missing and could not be installed" >&2 && exit 69; }
command -v redis-server >/dev/null || install_packages redis-server || echo "redis-server is missing; its rows will not run" >&2

if [[ $litellm ]]; then
    venv=$here/.venv-litellm
    if ! [[ -x $venv/bin/litellm ]]; then
        echo "installing litellm[proxy] into $venv" >&2
        python3 -m venv "$venv" 2>/dev/null || { install_packages python3-venv && python3 -m venv --clear "$venv"; }
        "$venv/bin/pip" install --quiet --disable-pip-version-check 'litellm[proxy]' redis
    fi
    pass+=(--litellm "$venv/bin/python")
fi

target=${CARGO_TARGET_DIR:-$root/target}
if [[ $build ]]; then
    CARGO_TARGET_DIR=$target "$root/dist/build.sh"
    cargo build --release --locked --manifest-path "$here/table/Cargo.toml" --target-dir "$target/table"
fi

# Ten thousand streams take twice as many files.
ulimit -n "$(ulimit -Hn)"
exec "$target/table/release/table" --tollgate "$target/dist/tollgate" "${pass[@]}"
