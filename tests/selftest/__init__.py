"""What a killed process loses: `make selftest` kills one at every step of a refresh and tells."""
