"""What makes files of this repository: run by anyone who changes their sources, never by the gateway."""
