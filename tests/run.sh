#!/usr/bin/env bash
# Runs the tests: Rust first, then the official SDKs against a gateway started for them.
#
#   tests/run.sh            everything
#   tests/run.sh rust       the Rust tests only
#   tests/run.sh sdk        the SDK tests only
#
# Installs what is missing: redis-server, curl, python3-venv and Node through apt-get (as root or with a sudo that asks nothing), the
# SDKs into tests/.venv and tests/sdk/node_modules. Ends non-zero when anything failed, and kills only what it started.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
case $what in all | rust | sdk) ;; *)
    echo "usage: tests/run.sh [all|rust|sdk]" >&2
    exit 64
    ;;
esac

target=${CARGO_TARGET_DIR:-target}
scratch=$(mktemp -d)
gateway_pid=
failed=()

say() { printf '\n=== %s (%ss)\n' "$*" "$SECONDS"; }

cleanup() {
    if [[ -n $gateway_pid ]] && kill -0 "$gateway_pid" 2>/dev/null; then
        kill "$gateway_pid" 2>/dev/null || true
        for _ in $(seq 100); do
            kill -0 "$gateway_pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$gateway_pid" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A step that may fail without hiding the ones after it.
step() {
    local name=$1
    shift
    say "$name"
    if "$@"; then
        echo "passed: $name"
    else
        failed+=("$name")
        echo "FAILED: $name"
    fi
}

# --- what the tests need ---

apt_updated=
install_packages() {
    local as_root=()
    if [[ $(id -u) != 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    command -v apt-get >/dev/null || return 1
    if [[ -z $apt_updated ]]; then
        "${as_root[@]}" apt-get update -qq || return 1
        apt_updated=yes
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

need() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    say "installing $*"
    if ! install_packages "$@" || ! command -v "$command" >/dev/null; then
        echo "$command is missing and could not be installed; please install: $*" >&2
        exit 69
    fi
}

need_python_sdks() {
    need python3 python3 python3-venv
    local stamp=tests/.venv/requirements.installed
    cmp -s tests/sdk/requirements.txt "$stamp" && return
    say "installing the Python SDKs"
    rm -rf tests/.venv
    if ! python3 -m venv tests/.venv 2>"$scratch/venv"; then
        # Debian ships the module without what it needs.
        install_packages python3-venv || { cat "$scratch/venv" >&2 && exit 69; }
        rm -rf tests/.venv
        python3 -m venv tests/.venv
    fi
    tests/.venv/bin/pip install --quiet --disable-pip-version-check -r tests/sdk/requirements.txt
    cp tests/sdk/requirements.txt "$stamp"
}

need_node_sdks() {
    need node nodejs
    need npm npm
    local stamp=tests/sdk/node_modules/lock.installed
    cmp -s tests/sdk/package-lock.json "$stamp" && return
    say "installing the Node SDKs"
    (cd tests/sdk && npm ci --silent --no-audit --no-fund)
    cp tests/sdk/package-lock.json "$stamp"
}

# --- Rust ---

rust_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --locked --no-fail-fast && cargo test --locked --doc --quiet
    else
        cargo test --locked --no-fail-fast
    fi
}

# --- the SDKs ---

# Starts `tollgate demo` on a free port and sets TOLLGATE_URL.
start_gateway() {
    "$target/debug/tollgate" demo --listen 127.0.0.1:0 --print-url >"$scratch/gateway.out" 2>"$scratch/gateway.err" &
    gateway_pid=$!
    for _ in $(seq 300); do
        TOLLGATE_URL=$(sed -n 's/^gateway \(http:[^ ]*\).*/\1/p' "$scratch/gateway.out" | head -n 1)
        if [[ -n $TOLLGATE_URL ]]; then
            export TOLLGATE_URL
            echo "gateway at $TOLLGATE_URL"
            return
        fi
        kill -0 "$gateway_pid" 2>/dev/null || break
        sleep 0.1
    done
    echo "the gateway did not start:" >&2
    cat "$scratch/gateway.out" "$scratch/gateway.err" >&2
    return 1
}

python_tests() { (cd tests/sdk && ../.venv/bin/pytest -q -p no:cacheprovider); }
node_tests() { (cd tests/sdk && node --test --test-reporter=spec); }
gateway_lives() {
    kill -0 "$gateway_pid" 2>/dev/null || { tail -n 40 "$scratch/gateway.err" >&2 && return 1; }
}

if [[ $what != sdk ]]; then
    need redis-server redis-server
    need curl curl # the README's lines are run as they stand
    step "Rust tests" rust_tests
fi

if [[ $what != rust ]]; then
    need_python_sdks
    need_node_sdks
    step "build of the gateway" cargo build --locked --bin tollgate
    say "starting tollgate demo"
    if start_gateway; then
        step "Python SDKs" python_tests
        step "Node SDKs" node_tests
        step "the gateway is still there" gateway_lives
    else
        failed+=("start of the gateway")
    fi
fi

if ((${#failed[@]})); then
    say "tests FAILED: $(printf '%s; ' "${failed[@]}")"
    exit 1
fi
say "all tests passed"
