//! What lies under TCP, sans-I/O: neighbours, routes, fragments, path MTU, ICMP, UDP.
