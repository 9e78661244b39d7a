"""OAuth 2.0 without I/O: builds the requests of RFC 6749 and reads their replies, the bent ones too."""
