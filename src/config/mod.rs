//! Configuration: the file as written, checked, and compiled into the policy that the stack reads.

pub mod policy;

pub use policy::Policy;
