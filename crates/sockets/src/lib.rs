//! The host library: streams, listeners, datagrams and readiness over the host/adapter interface.
