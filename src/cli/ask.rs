//! Asking a running gateway over HTTP or HTTPS.

use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a gateway's certificate is checked, and what is shown to it.
#[derive(Args, Debug, Default)]
pub struct Trust {
    /// Trust the authorities in this PEM file instead of the system's, for a gateway whose certificate is the company's own
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show this certificate (PEM), where the gateway asks its clients for one; needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Do not check the gateway's certificate; for asking the gateway of this very machine
    #[arg(long)]
    insecure: bool,
}

impl Trust {
    /// A client that waits so long for an answer. No proxies: it is one of our own that is asked.
    ///
    /// # Errors
    /// What is wrong with the files, for people.
    pub fn client(&self, patience: Duration) -> Result<reqwest::Client, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder().no_proxy().timeout(patience).tls_danger_accept_invalid_certs(self.insecure);
        if let Some(path) = &self.ca {
            let authorities = reqwest::Certificate::from_pem_bundle(&read(path)?);
            let authorities = authorities.ok().filter(|all| !all.is_empty());
            builder = builder.tls_certs_only(authorities.ok_or_else(|| format!("{} holds no certificate", path.display()))?);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            let both = [read(cert)?, b"\n".to_vec(), read(key)?].concat();
            let identity = reqwest::Identity::from_pem(&both);
            let reason = |_| format!("{} and {} are no certificate with its key", cert.display(), key.display());
            builder = builder.identity(identity.map_err(reason)?);
        }
        builder.build().map_err(|error| error.to_string())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
