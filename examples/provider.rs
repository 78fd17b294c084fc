//! The stand-in provider on its own: `cargo run --example provider -- 127.0.0.1:9001`.

use tollgate::demo::{Provider, ProviderOptions};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut options = ProviderOptions::default();
    if let Some(bind) = std::env::args().nth(1) {
        options.bind = bind.parse().map_err(std::io::Error::other)?;
    }
    let provider = Provider::start(options).await?;
    eprintln!("provider {}", provider.base_url());
    tokio::signal::ctrl_c().await
}
