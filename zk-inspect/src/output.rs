//! What one-shot commands print.

pub(crate) mod json;
pub(crate) mod table;
