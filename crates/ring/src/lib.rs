//! Shared memory: rings, doorbells, waiters, slabs. The home of unsafe code.
