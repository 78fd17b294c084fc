//! The signature.

use crate::config::policy::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use ring::hmac;

/// What a secret begins with whose rest is base64, as the makers of webhook receivers hand them out.
const PREFIX: &str = "whsec_";

/// Signs webhooks.
pub struct Key(hmac::Key);

/// A secret that begins with `whsec_` and goes on with something that is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("begins with whsec_, and the rest is not base64")]
pub struct NoKey;

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(***)")
    }
}

impl Key {
    /// Reads a secret: `whsec_` and base64, or else the bytes of the text itself.
    ///
    /// # Errors
    /// [`NoKey`]
    pub fn read(secret: &Secret) -> Result<Self, NoKey> {
        let bytes = match secret.expose().strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| NoKey)?,
            None => secret.expose().as_bytes().to_vec(),
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// The value of `webhook-signature`.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> HeaderValue {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        let signature = format!("v1,{}", STANDARD.encode(context.sign()));
        HeaderValue::try_from(signature).expect("base64 is visible ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hmac, hashlib and base64 from the same inputs.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        for (secret, right) in [
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ("a plain secret", "v1,ENqrYZJfEdejvH41MpDAd0s4SZwl35B0bx0LOnREaDY="),
        ] {
            let key = Key::read(&Secret::new(secret)).expect("a key");
            assert_eq!(key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#), right, "{secret}");
        }
        assert_eq!(Key::read(&Secret::new("whsec_no base64")).err(), Some(NoKey));
    }
}
