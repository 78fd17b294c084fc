//! Authorities and certificates of a test's own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Issues certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub struct Issued {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For this name and 127.0.0.1, good from yesterday until in so many days.
    pub fn issue(&self, name: &str, days: i64) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        let until = if days < 0 { now - day.mul_f64(days.unsigned_abs() as f64) } else { now + day.mul_f64(days as f64) };
        params.not_before = (now - day * 100).into();
        params.not_after = until.into();
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Issued { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// A client that trusts this authority only.
    pub fn client(&self) -> reqwest::ClientBuilder {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root = reqwest::Certificate::from_pem(self.pem().as_bytes()).expect("PEM");
        reqwest::Client::builder().no_proxy().tls_certs_only([root])
    }
}

impl Issued {
    /// As `cert.pem` and `key.pem`.
    pub fn write(&self, directory: &Path) {
        std::fs::write(directory.join("cert.pem"), &self.cert).expect("written");
        std::fs::write(directory.join("key.pem"), &self.key).expect("written");
    }

    pub fn identity(&self) -> reqwest::Identity {
        reqwest::Identity::from_pem(format!("{}\n{}", self.cert, self.key).as_bytes()).expect("PEM")
    }
}
