"""What `gateway demo` is made of: its folder, its two processes, and the connection it makes through the real flow."""


class DemoFailed(Exception):
    """The demo cannot go on; the text is all that the person at the terminal needs."""
