#!/usr/bin/env bash
# Asks the admin API of a gateway what its own document (/admin/openapi.json) allows, and what it does not, and holds the answers against it.
#
#   tests/admin/schemathesis.sh PROGRAM SCHEMATHESIS
#
# PROGRAM is the gateway, SCHEMATHESIS what tests/admin/requirements.txt installs. The gateway is started with a store of its own in a
# directory that is gone afterwards, and has to be alive at the end. Ends non-zero on any finding. The requests are the same each time.
set -euo pipefail
program=$(realpath "$1")
schemathesis=$(realpath -s "$2")
cd "$(dirname "$0")"
configuration=$PWD/gateway.toml

scratch=$(mktemp -d)
gateway=
cleanup() {
    if [[ -n $gateway ]]; then
        kill "$gateway" 2>/dev/null || true
        wait "$gateway" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export ADMIN_TOKEN=token-of-the-operator-under-test
APP_KEY=key-of-the-app-under-test TOLLGATE_STORE__PATH=$scratch/data \
    "$program" serve --config "$configuration" >"$scratch/serve" 2>&1 &
gateway=$!

address=
for _ in $(seq 300); do
    address=$(sed -nE 's/.*"admin":"([^"]*)".*/\1/p' "$scratch/serve" | head -n 1)
    [[ -n $address ]] && break
    kill -0 "$gateway" 2>/dev/null || break
    sleep 0.1
done
if [[ -z $address ]]; then
    echo "the gateway did not start:" >&2
    cat "$scratch/serve" >&2
    exit 1
fi

# What schemathesis leaves behind in the directory it runs in goes with the rest.
cd "$scratch"
found=0
# All checks but one: that whatever has the document's shape is taken. Ids, durations and the keys of a plan have rules of their own.
"$schemathesis" run "http://$address/admin/openapi.json" -H "Authorization: Bearer $ADMIN_TOKEN" \
    --checks all --exclude-checks positive_data_acceptance \
    --phases coverage,fuzzing,stateful --max-examples 8 --generation-deterministic --continue-on-failure \
    --suppress-health-check all --request-timeout 20 --warnings off --no-color || found=$?

if ! kill -0 "$gateway" 2>/dev/null; then
    echo "the gateway is gone:" >&2
    tail -n 40 "$scratch/serve" >&2
    exit 1
fi
if ((found)); then
    # Warnings that say why are in its log.
    grep -E '"level":"(WARN|ERROR)"' "$scratch/serve" | grep -v '"target":"tollgate::cli' | tail -n 20 >&2 || true
fi
exit "$found"
