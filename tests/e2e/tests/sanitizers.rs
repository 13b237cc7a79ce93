//! Programs that are built with sanitizers, whose libraries stand between a program and libc
//! as the shim does.

use longshore_e2e::{conformance, scenarios};

scenarios! {
    /// AddressSanitizer, whose library wants to be the first, with its search for leaks.
    fn addresses(bed) within 300 {
        conformance::run_built(bed, "readiness", &["-fsanitize=address"]);
    }

    /// ThreadSanitizer, which makes its calls before libc is ready.
    fn threads(bed) within 300 {
        conformance::run_built(bed, "datagram", &["-fsanitize=thread"]);
    }
}
