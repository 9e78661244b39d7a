import subprocess
import sys

IMPORT = """
import linecache
import gateway.catalog.provider
print([name for name in linecache.cache if "gateway/catalog" in name])
"""


def test_the_shapes_of_an_entry_are_defined_without_reading_their_source_code() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
