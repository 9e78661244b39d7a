"""How long a test waits for an event. The limit is so long that only a hang reaches it, even on a slow and busy
machine.
"""

from typing import Final

PATIENCE_S: Final = 60.0
