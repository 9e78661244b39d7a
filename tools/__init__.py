"""What makes files of this repository: run by whoever changes their sources, never by the gateway."""
