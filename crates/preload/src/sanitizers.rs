//! Programs that are built with AddressSanitizer. Its library wants to be the first that is
//! loaded, and ends the program if another is: by default, which it asks for here. It needs
//! no more than to come before libc: what the shim calls of libc goes through it.
//!
//! A program that has this function itself is asked instead, and says so with
//! `ASAN_OPTIONS=verify_asan_link_order=0`.

use libc::c_char;

/// The options that hold if the environment does not say otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}
