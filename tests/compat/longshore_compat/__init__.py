"""Other projects' test suites on the kernel and on Longshore; see tests/compat/README.md."""
