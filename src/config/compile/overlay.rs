//! What differs, laid over what is inherited.
//!
//! `spend`, `quota` and `user` are laid over key by key; `messages`, `rpm`, `tpm` and lists are replaced whole, since half of another
//! rate makes no sense.

use crate::config::file::{Plan, Quota, Spend, Upstream, User};

/// A table of which some keys are set and the rest is inherited.
pub trait Overlay: Clone {
    /// This one where it says something, `base` elsewhere.
    #[must_use]
    fn over(self, base: &Self) -> Self;
}

impl<T: Overlay> Overlay for Option<T> {
    fn over(self, base: &Self) -> Self {
        match (self, base) {
            (Some(this), Some(base)) => Some(this.over(base)),
            (Some(this), None) => Some(this),
            (None, base) => base.clone(),
        }
    }
}

/// Each field named once, so that a new field fails to compile here until it has a rule.
macro_rules! overlay {
    ($type:ident: whole $($whole:ident)*; by_key $($deep:ident)*) => {
        impl Overlay for $type {
            fn over(self, base: &Self) -> Self {
                let Self { place, $($whole,)* $($deep,)* } = self;
                Self { place, $($whole: $whole.or_else(|| base.$whole.clone()),)* $($deep: $deep.over(&base.$deep),)* }
            }
        }
    };
}

overlay!(Spend: whole day week month; by_key);
overlay!(Quota: whole requests_day requests_week requests_month tokens_day tokens_week tokens_month; by_key);
overlay!(User: whole messages rpm tpm; by_key spend quota);
overlay!(Plan: whole messages rpm tpm max_output_tokens max_in_flight upgrade_url on_spend on_tokens on_provider; by_key spend quota user);
overlay!(
    Upstream: whole base_url api_key dialect connect_timeout first_byte_timeout idle_timeout pool_idle_timeout include_usage on_abort; by_key
);
