//! The TCP machine, sans-I/O: segments, user calls and the time in; segments, events and the next deadline out.
