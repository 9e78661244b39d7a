"""The media type of a Content-Type field (RFC 9110 §8.3), in time that grows with its length."""


def media_type(field: str) -> str:
    """In lower case, without its parameters; empty where there is none."""
    return field.partition(";")[0].strip().lower()
