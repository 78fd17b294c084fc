//! The listener for operators.
