"""`make selftest` kills a process at every step of a refresh and reports what was lost."""
