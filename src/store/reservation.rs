//! A reservation and the duty to settle it.
