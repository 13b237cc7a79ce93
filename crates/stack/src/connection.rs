//! Connections and listeners, as their hosts are told of them: `report` has what is told of a
//! connection, and `listener` of those that wait for a listener.

mod listener;
mod report;
