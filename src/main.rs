//! The `tollgate` program: see `tollgate --help`.

/// A request makes some two hundred short-lived allocations on whatever thread it is at; the system's allocator spends a sixth of the
/// gateway's time on them, this one a third of that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tollgate::cli::main()
}
