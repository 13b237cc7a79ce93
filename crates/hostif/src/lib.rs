//! The host/adapter interface: descriptors, arena layout, validation, the meter.
