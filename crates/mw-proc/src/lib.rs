//! Pure parsers of the kernel text.
