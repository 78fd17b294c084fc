//! `tls`: the files are read here, so that what cannot be served is found before anything is served or replaced.

use super::Compiler;
use crate::config::file;
use crate::config::policy::{ClientAuth, Tls};
use crate::config::problem::Place;
use crate::config::read::At;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// No chain of certificates is larger.
const MOST_BYTES: u64 = 1 << 20;
/// From so long before its end on it is worth a warning that a certificate ends.
const SOON: u64 = 30 * 86_400;
/// How long a handshake may take, unless configured.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// `[server.tls]` or `[admin.tls]`; `None` when the table is not there, or beside a problem.
pub fn tls(c: &mut Compiler<'_>, written: Option<&file::Tls>) -> Option<Arc<Tls>> {
    let file::Tls { place, cert, key, client_ca, client_auth, handshake_timeout } = written?;
    for (name, is_there) in [("cert", cert.is_some()), ("key", key.is_some())] {
        if !is_there {
            c.findings.missing(place, name, format!("write {name} = \"/path/to/{name}.pem\""));
        }
    }
    if let Some(at) = client_auth.as_ref().filter(|_| client_ca.is_none()) {
        c.findings.problem(
            &at.place,
            "asks clients for certificates, and nobody's count",
            "write client_ca = \"/path/to/ca.pem\"",
        );
    }
    let mut hash = blake3::Hasher::new();
    let chain = cert.as_ref().and_then(|at| certificates(c, at, &mut hash));
    let key_at = key.as_ref();
    let key = key_at.and_then(|at| private_key(c, at, &mut hash));
    let roots = match client_ca {
        Some(at) => Some((at, certificates(c, at, &mut hash)?)),
        None => None,
    };
    let (cert, chain, key_at, key) = (cert.as_ref()?, chain?, key_at?, key?);
    let expires = validity(c, &cert.place, &chain)?;
    if let Some((at, roots)) = &roots {
        validity(c, &at.place, roots)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client_auth = roots.is_some().then(|| client_auth.as_ref().map_or(ClientAuth::Required, |at| at.value));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has what the default versions need");
    let builder = match roots {
        Some((at, roots)) => builder.with_client_cert_verifier(verifier(c, at, roots, client_auth, &provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = match builder.with_single_cert(chain, key) {
        Ok(config) => config,
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            let reason = format!("the key in {} is not that of the certificate in {}", key_at.value, cert.value);
            c.findings.problem(&key_at.place, reason, "name the two that belong together");
            return None;
        }
        Err(error) => {
            c.findings.problem(place, format!("certificate and key cannot be used: {error}"), "");
            return None;
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(Arc::new(Tls {
        config: Arc::new(config),
        handshake_timeout: handshake_timeout.map_or(HANDSHAKE, |timeout| timeout.0),
        client_auth,
        expires,
        hash: *hash.finalize().as_bytes(),
    }))
}

fn verifier(
    c: &mut Compiler<'_>,
    at: &At<String>,
    roots: Vec<CertificateDer<'static>>,
    client_auth: Option<ClientAuth>,
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let mut store = RootCertStore::empty();
    for root in roots {
        if let Err(error) = store.add(root) {
            c.findings.problem(&at.place, format!("a certificate in {} is no authority's: {error}", at.value), "");
            return None;
        }
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
    let builder = if client_auth == Some(ClientAuth::Optional) { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|error| c.findings.problem(&at.place, error.to_string(), "")).ok()
}

/// The bytes of a file, and its hash.
fn read(c: &mut Compiler<'_>, at: &At<String>, hash: &mut blake3::Hasher) -> Option<Vec<u8>> {
    let read = c.findings.read_file(&at.place, &at.value, MOST_BYTES);
    let failed = |error| {
        let reason = format!("the file {} cannot be read: {error}", at.value);
        c.findings.problem(&at.place, reason, "check path and permissions");
    };
    let bytes = read.map_err(failed).ok()?;
    hash.update(blake3::hash(&bytes).as_bytes());
    Some(bytes)
}

/// The certificates in a file; at least one.
fn certificates(c: &mut Compiler<'_>, at: &At<String>, hash: &mut blake3::Hasher) -> Option<Vec<CertificateDer<'static>>> {
    let bytes = read(c, at, hash)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let reason = match all {
        Ok(all) if all.is_empty() => format!("the file {} holds no certificate", at.value),
        Ok(all) => return Some(all),
        Err(error) => format!("the file {} is not PEM: {error}", at.value),
    };
    c.findings.problem(&at.place, reason, "name a file with -----BEGIN CERTIFICATE----- in it");
    None
}

fn private_key(c: &mut Compiler<'_>, at: &At<String>, hash: &mut blake3::Hasher) -> Option<PrivateKeyDer<'static>> {
    let bytes = read(c, at, hash)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    // Why it is none is not said: what was found may be part of one.
    let advice = "name a file with -----BEGIN PRIVATE KEY----- in it; encrypted keys are not read";
    key.map_err(|_| c.findings.problem(&at.place, format!("the file {} holds no private key", at.value), advice)).ok()
}

/// When the first of these to end ends, seconds since the Unix epoch. Says so if that is soon, or was, or one has not begun.
fn validity(c: &mut Compiler<'_>, place: &Place, chain: &[CertificateDer<'_>]) -> Option<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut expires = u64::MAX;
    for certificate in chain {
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
            c.findings.problem(place, "holds a certificate that cannot be read", "");
            return None;
        };
        let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
        let (begins, ends) = (seconds(parsed.validity().not_before), seconds(parsed.validity().not_after));
        if begins > now {
            c.findings.warn(
                place,
                format!("holds a certificate that is not valid before {}", date(begins)),
                "clients will refuse it until then",
            );
        }
        expires = expires.min(ends);
    }
    if expires <= now {
        c.findings.warn(place, format!("has a certificate that ended on {}", date(expires)), "renew it: clients refuse it");
    } else if expires - now < SOON {
        let days = (expires - now).div_ceil(86_400);
        c.findings.warn(place, format!("has a certificate that ends on {}, in {days} days", date(expires)), "renew it");
    }
    Some(expires)
}

/// An instant as people read it.
pub fn date(seconds: u64) -> String {
    let instant = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    instant.map_or_else(|| "a day far away".to_owned(), |instant| instant.to_string())
}
