//! The redis store.
