//! Packet formats and checksums: bytes in, meaning out, and back.
