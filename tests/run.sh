#!/usr/bin/env bash
# Runs the tests: Rust first, then the official SDKs against a gateway started for them.
#
#   tests/run.sh            everything
#   tests/run.sh rust       the Rust tests only
#   tests/run.sh sdk        the SDK tests only, those of the console in a browser, and schemathesis against the admin API
#
# Installs what is missing: redis-server, curl, python3-venv, Node and Chromium through apt-get (as root or with a sudo that asks nothing),
# the SDKs into tests/.venv, tests/.venv-older and tests/sdk/node_modules, schemathesis into tests/.venv-schemathesis, what drives the
# browser into tests/console/node_modules. Ends non-zero when anything failed, and kills only what it started.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
case $what in all | rust | sdk) ;; *)
    echo "usage: tests/run.sh [all|rust|sdk]" >&2
    exit 64
    ;;
esac

# The gateways that the tests start take every TOLLGATE_ variable for a setting; those of whoever runs this are not meant for them.
unset "${!TOLLGATE_@}"

target=${CARGO_TARGET_DIR:-target}
scratch=$(mktemp -d)
started=()
failed=()

say() { printf '\n=== %s (%ss)\n' "$*" "$SECONDS"; }

cleanup() {
    local pid
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
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

# A virtual environment with what a requirements file pins.
python_sdks() {
    local venv=$1 requirements=$2
    local stamp=$venv/requirements.installed
    cmp -s "$requirements" "$stamp" && return
    say "installing $requirements"
    rm -rf "$venv"
    if ! python3 -m venv "$venv" 2>"$scratch/venv"; then
        # Debian ships the module without what it needs.
        install_packages python3-venv || { cat "$scratch/venv" >&2 && exit 69; }
        rm -rf "$venv"
        python3 -m venv "$venv"
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$stamp"
}

need_python_sdks() {
    need python3 python3 python3-venv
    python_sdks tests/.venv tests/sdk/requirements.txt
    python_sdks tests/.venv-older tests/sdk/requirements-older.txt
    python_sdks tests/.venv-schemathesis tests/admin/requirements.txt
}

# What the lock file of a directory names.
node_packages() {
    local directory=$1 stamp=$1/node_modules/lock.installed
    need node nodejs
    need npm npm
    cmp -s "$directory/package-lock.json" "$stamp" && return
    say "installing the packages of $directory"
    (cd "$directory" && npm ci --silent --no-audit --no-fund)
    cp "$directory/package-lock.json" "$stamp"
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

# Waits for a line that a program just started writes, and prints what the expression makes of it.
said() {
    local pid=$1 file=$2 expression=$3 found
    for _ in $(seq 300); do
        found=$(sed -nE "$expression" "$file" | head -n 1)
        [[ -n $found ]] && echo "$found" && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    echo "it did not start:" >&2
    cat "$file" >&2
    return 1
}

# Starts `tollgate demo`, and behind its stand-in provider a second gateway with the configuration of the SDK tests.
start_gateways() {
    local provider
    "$target/debug/tollgate" demo --listen 127.0.0.1:0 --print-url >"$scratch/demo" 2>&1 &
    started+=($!)
    TOLLGATE_URL=$(said $! "$scratch/demo" 's/^gateway (http:[^ ]*).*/\1/p') || return 1
    provider=$(said $! "$scratch/demo" 's/^provider (http:[^ ]*).*/\1/p') || return 1

    export APP_KEY=key-of-the-app-under-test NARROW_KEY=key-for-few-models-only BROKE_KEY=key-without-any-money
    PROVIDER_KEY=sk-demo TOLLGATE_STORE__PATH=$scratch/data \
        TOLLGATE_UPSTREAMS__OPENAI__BASE_URL=$provider TOLLGATE_UPSTREAMS__ANTHROPIC__BASE_URL=$provider \
        "$target/debug/tollgate" serve --config tests/sdk/gateway.toml >"$scratch/serve" 2>&1 &
    started+=($!)
    TOLLGATE_KEYS_URL=http://$(said $! "$scratch/serve" 's/.*"address":"([^"]*)".*/\1/p') || return 1
    export TOLLGATE_URL TOLLGATE_KEYS_URL
    "$target/debug/tollgate" health --url "$TOLLGATE_URL/readyz" && "$target/debug/tollgate" health --url "$TOLLGATE_KEYS_URL/readyz"
}

python_tests() { (cd tests/sdk && "../$1/bin/pytest" -q -p no:cacheprovider); }
# One file after the other: each starts a gateway and a browser of its own.
console_tests() {
    (cd tests/console && TOLLGATE_BIN=$program CHROMIUM=$(command -v chromium) node --test --test-concurrency=1 --test-reporter=spec)
}
node_tests() { (cd tests/sdk && node --test --test-reporter=spec); }
gateways_live() {
    local pid
    for pid in "${started[@]}"; do
        kill -0 "$pid" 2>/dev/null || { tail -n 40 "$scratch/demo" "$scratch/serve" >&2 && return 1; }
    done
}

if [[ $what != sdk ]]; then
    need promtool prometheus # checks the alert rules and a scrape; the server itself is not started
    need redis-server redis-server # also the sentinels: `redis-server --sentinel`
    need curl curl # the README's lines are run as they stand
    step "Rust tests" rust_tests
fi

if [[ $what != rust ]]; then
    need_python_sdks
    node_packages tests/sdk
    node_packages tests/console
    need chromium chromium fonts-dejavu-core
    # The Rust tests have built it already; building it by itself would compile some dependencies anew, with fewer features.
    [[ $what == all ]] || step "build of the gateway" cargo build --locked --bin tollgate
    program=$(realpath "$target/debug/tollgate")
    step "Console in Chromium" console_tests
    step "Admin API against its document" tests/admin/schemathesis.sh "$program" tests/.venv-schemathesis/bin/schemathesis
    say "starting the gateways"
    if start_gateways; then
        echo "$TOLLGATE_URL (demo), $TOLLGATE_KEYS_URL (keys)"
        step "Python SDKs" python_tests .venv
        step "Python SDKs, older" python_tests .venv-older
        step "Node SDKs" node_tests
        step "the gateways are still there" gateways_live
    else
        failed+=("start of the gateways")
    fi
fi

if ((${#failed[@]})); then
    say "tests FAILED: $(printf '%s; ' "${failed[@]}")"
    exit 1
fi
say "all tests passed"
