"""Why something could not be sealed or opened. The messages name places and key ids, never contents."""


class VaultError(Exception):
    """A ciphertext that is not what was sealed here, or a key that cannot be used. Nothing was opened."""


class Damaged(VaultError):
    """It is not what was sealed here: a byte was changed, or it was moved here from another place."""


class UnknownKey(VaultError):
    """The key that this was sealed under is not among those at hand; unlike damage, adding the key mends it."""
