#!/usr/bin/env bash
# Records what the gateway is busy with, for dist/build.sh: dist/profile.gz and, with which compiler, dist/rustc.
#
#   dist/train.sh                        some 15 minutes on two cores
#
# Builds the gateway with counters, has the rows of the benchmark that are about different paths measure it for two seconds each (known and
# new prompts, Redis, streams, refusals, one connection), and merges what was counted. Needs rustup for llvm-tools, and what
# benches/run.sh needs. Worth it after a new compiler or after much of a request's path has changed; compare with
# `benches/run.sh --only instructions`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}/train
counts=$target/counts

profdata() { find "$(rustc --print sysroot)" -name llvm-profdata -type f | head -n 1; }
[[ $(profdata) ]] || rustup component add llvm-tools

CARGO_ENCODED_RUSTFLAGS="-Cprofile-generate=$counts" \
    cargo build --profile dist --locked --bin tollgate --manifest-path "$root/Cargo.toml" --target-dir "$target"
cargo build --release --locked --manifest-path "$root/benches/table/Cargo.toml" --target-dir "$target/table"

# What was counted so far are programs of the build.
rm -rf "$counts"
ulimit -n "$(ulimit -Hn)"
for row in embedded-warm embedded-new redis-warm one-connection streams flood; do
    # The bars are not for a gateway that counts.
    "$target/table/release/table" --tollgate "$target/dist/tollgate" --only "$row" --seconds 2 || (($? == 1))
done
"$(profdata)" merge --sparse --output "$target/profile" "$counts"/*.profraw
gzip -9nc "$target/profile" >"$here/profile.gz"
rustc --version >"$here/rustc"
