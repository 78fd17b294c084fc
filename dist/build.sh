#!/usr/bin/env bash
# Builds the gateway as it is shipped: target/dist/tollgate, optimised as a whole and for what a gateway is busy with.
#
#   dist/build.sh                        twice as long as `cargo build --release`; arguments go to cargo
#
# What it is busy with stands in dist/profile.gz, which dist/train.sh recorded. It says something only to the compiler that it was recorded
# with (dist/rustc); another one builds without it, and says so. Functions that were changed since are built as if nothing were known.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}

if [[ $(rustc --version) == "$(<"$here/rustc")" ]]; then
    mkdir -p "$target"
    gzip -dc "$here/profile.gz" >"$target/dist.profdata"
    # Separated as cargo has it, since a path may have a space.
    export CARGO_ENCODED_RUSTFLAGS="${CARGO_ENCODED_RUSTFLAGS:+$CARGO_ENCODED_RUSTFLAGS$'\x1f'}-Cprofile-use=$target/dist.profdata"
else
    echo "dist/build.sh: the profile is of $(<"$here/rustc"), this is $(rustc --version): built without it, for a fifth more CPU a request" >&2
fi
exec cargo build --profile dist --locked --bin tollgate --manifest-path "$root/Cargo.toml" --target-dir "$target" "$@"
