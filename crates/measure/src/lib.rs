//! Workloads, counters and tables: Longshore and the kernel, measured side by side.
