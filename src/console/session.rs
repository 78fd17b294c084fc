//! Who is at the browser: a signed cookie, so that every gateway with the same admin token knows its reader, also while the store is away.
//!
//! The key is derived from the admin token: a new token ends every session. There is no list of sessions, so logging out takes the cookie
//! from the browser and does no more; a session ends by itself after [`LIFETIME`]. Where no token is asked for (loopback only), the key
//! is drawn at the start of the process, so that a page of another port of this machine cannot make itself a session.

use crate::admin::name;
use crate::config::policy::Admin;
use crate::domain::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use subtle::ConstantTimeEq;

/// How long somebody stays logged in: a working day. Not prolonged by use.
pub const LIFETIME: u64 = 10 * 3_600;
/// How long the login page may stay open.
const VISIT: u64 = 3_600;
/// The cookie.
pub const COOKIE_NAME: &str = "tollgate_console";
/// Longer cookies are none of ours.
const LONGEST: usize = 600;

const KEY: &str = "tollgate 2026 console: key of sessions";

/// Makes sessions and knows its own again.
#[derive(Clone)]
pub(super) struct Sessions {
    key: [u8; 32],
}

/// Somebody at a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The operator's name, for the audit trail; `None` = not logged in.
    pub(super) operator: Option<String>,
    /// What the cookie says.
    pub(super) cookie: String,
    /// What every form of this session has to send back.
    pub(super) csrf: String,
}

impl Sessions {
    pub(super) fn new(settings: &Admin) -> Self {
        let key = match &settings.token {
            Some(token) => blake3::derive_key(KEY, token.expose().as_bytes()),
            None => random(),
        };
        Self { key }
    }

    /// A session that begins; without an operator, that of somebody who is about to log in.
    pub(super) fn open(&self, operator: Option<&str>, now: Timestamp) -> Session {
        let until = now.secs() + if operator.is_some() { LIFETIME } else { VISIT };
        let nonce = &hex(&random())[..32];
        let said = format!("{until}.{nonce}.{}", URL_SAFE_NO_PAD.encode(operator.unwrap_or_default()));
        let cookie = format!("{said}.{}", hex(&self.mac(b"session", &said)));
        self.session(operator.map(ToOwned::to_owned), cookie)
    }

    /// The session of a request, if it is one of ours and has not ended. Of several cookies the first that holds, one of an operator
    /// before one of a visitor.
    pub(super) fn of(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let ours = pairs.filter(|(name, _)| *name == COOKIE_NAME).take(8).filter_map(|(_, value)| self.read(value, now));
        ours.reduce(|best, other| if best.operator.is_none() { other } else { best })
    }

    fn read(&self, cookie: &str, now: Timestamp) -> Option<Session> {
        if cookie.len() > LONGEST {
            return None;
        }
        let (said, mac) = cookie.rsplit_once('.')?;
        let right: bool = hex(&self.mac(b"session", said)).as_bytes().ct_eq(mac.as_bytes()).into();
        if !right {
            return None;
        }
        let mut parts = said.split('.');
        let (until, _, operator) = (parts.next()?, parts.next()?, parts.next()?);
        if until.parse::<u64>().ok()? <= now.secs() {
            return None;
        }
        let operator = String::from_utf8(URL_SAFE_NO_PAD.decode(operator).ok()?).ok()?;
        let operator = if operator.is_empty() { None } else { Some(name("name", &operator).ok()?.to_owned()) };
        Some(self.session(operator, cookie.to_owned()))
    }

    fn session(&self, operator: Option<String>, cookie: String) -> Session {
        let csrf = hex(&self.mac(b"form", &cookie));
        Session { operator, cookie, csrf }
    }

    fn mac(&self, purpose: &[u8], said: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(purpose).update(&[0]).update(said.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl Session {
    /// Whether a form was made for this session.
    pub(super) fn made(&self, csrf: &str) -> bool {
        self.csrf.as_bytes().ct_eq(csrf.as_bytes()).into()
    }

    /// The `Set-Cookie` that begins it.
    pub(super) fn set_cookie(&self, encrypted: bool) -> String {
        let age = if self.operator.is_some() { LIFETIME } else { VISIT };
        let secure = if encrypted { "; Secure" } else { "" };
        format!("{COOKIE_NAME}={}; Path=/console; Max-Age={age}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }
}

/// The `Set-Cookie` that ends a session.
pub(super) fn clear_cookie() -> String {
    format!("{COOKIE_NAME}=; Path=/console; Max-Age=0; HttpOnly; SameSite=Strict")
}

fn random() -> [u8; 32] {
    use ring::rand::SecureRandom;
    let mut bytes = [0; 32];
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}

fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::Secret;
    use http::HeaderValue;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn sessions(token: Option<&str>) -> Sessions {
        Sessions::new(&Admin { listen: ([127, 0, 0, 1], 0).into(), token: token.map(Secret::new), tls: None })
    }

    fn sent(cookies: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_str(cookie).expect("text"));
        }
        headers
    }

    fn later(secs: u64) -> Timestamp {
        NOW.plus(secs * 1_000_000)
    }

    #[test]
    fn a_session_holds_on_every_gateway_with_the_token_until_it_ends() {
        let (one, two, other) = (sessions(Some("token-a")), sessions(Some("token-a")), sessions(Some("token-b")));
        let session = one.open(Some("Zoë. O'Neil"), NOW);
        let headers = sent(&[&format!("a=b; {COOKIE_NAME}={}", session.cookie)]);
        assert_eq!(two.of(&headers, later(LIFETIME - 1)), Some(session.clone()));
        assert_eq!(two.of(&headers, later(LIFETIME)), None, "it has ended");
        assert_eq!(other.of(&headers, NOW), None, "the token was changed");
        assert!(session.made(&session.csrf) && !session.made("") && !session.made(&one.open(Some("x"), NOW).csrf));
    }

    #[test]
    fn without_a_token_each_process_knows_its_own_sessions_only() {
        let (one, two) = (sessions(None), sessions(None));
        let session = one.open(Some("ann"), NOW);
        let headers = sent(&[&format!("{COOKIE_NAME}={}", session.cookie)]);
        assert_eq!(one.of(&headers, NOW), Some(session));
        assert_eq!(two.of(&headers, NOW), None);
    }

    #[test]
    fn what_was_changed_is_no_session() {
        let sessions = sessions(Some("token-a"));
        let visitor = sessions.open(None, NOW);
        assert_eq!(visitor.operator, None);
        let (said, mac) = visitor.cookie.rsplit_once('.').expect("four parts");
        let named = format!("{said}{}.{mac}", URL_SAFE_NO_PAD.encode("ann"));
        let longer = visitor.cookie.replacen("18", "19", 1);
        for cookie in [named.as_str(), &longer, said, mac, "", "....", &"x".repeat(10_000)] {
            assert_eq!(sessions.of(&sent(&[&format!("{COOKIE_NAME}={cookie}")]), NOW), None, "{cookie}");
        }
    }

    #[test]
    fn an_operators_cookie_counts_before_a_visitors_and_before_garbage() {
        let sessions = sessions(Some("token-a"));
        let (visitor, ann) = (sessions.open(None, NOW), sessions.open(Some("ann"), NOW));
        let pair = |session: &Session| format!("{COOKIE_NAME}={}", session.cookie);
        for cookies in [
            [format!("{COOKIE_NAME}=x; {}; {}", pair(&visitor), pair(&ann)), String::new()],
            [pair(&ann), pair(&visitor)],
            [pair(&visitor), pair(&ann)],
        ] {
            let headers = sent(&[&cookies[0], &cookies[1]]);
            assert_eq!(sessions.of(&headers, NOW).and_then(|session| session.operator).as_deref(), Some("ann"), "{cookies:?}");
        }
    }

    #[test]
    fn the_cookie_is_for_this_browser_and_these_pages_only() {
        let session = sessions(Some("token-a")).open(Some("ann"), NOW);
        let rest = format!("={}; Path=/console; Max-Age=36000; HttpOnly; SameSite=Strict", session.cookie);
        assert_eq!(session.set_cookie(false), format!("{COOKIE_NAME}{rest}"));
        assert_eq!(session.set_cookie(true), format!("{COOKIE_NAME}{rest}; Secure"));
    }
}
