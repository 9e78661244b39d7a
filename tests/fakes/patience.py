"""How long a test waits for what must happen: so long that only a hang reaches it, on a slow and busy machine too."""

from typing import Final

PATIENCE_S: Final = 60.0
