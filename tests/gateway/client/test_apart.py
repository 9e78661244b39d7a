"""Importing the client loads no server, no database, no catalog."""

import subprocess
import sys

LOADED = """
import sys
import gateway.client
ours = [name for name in sys.modules if name.partition(".")[0] in ("gateway", "middleware")]
print([name for name in ours if name != "gateway" and not name.startswith("gateway.client")])
print([name for name in ("sqlalchemy", "pydantic", "yaml", "click", "cryptography") if name in sys.modules])
"""


def test_importing_the_client_loads_nothing_of_the_server() -> None:
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[]", "[]"]
