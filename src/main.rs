//! The `tollgate` program: see `tollgate --help`.

/// A request makes many short-lived allocations on whatever thread it is at: in profiles of the warm path the system's allocator took a
/// sixth of the gateway's time, this one a tenth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tollgate::cli::main()
}
