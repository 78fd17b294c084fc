//! The `tollgate` program: see `tollgate --help`.

fn main() -> std::process::ExitCode {
    tollgate::cli::main()
}
