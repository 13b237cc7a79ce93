//! Where packets leave: TAP, memory wire, simulated wire; capture and fault injection stack on any of them.
