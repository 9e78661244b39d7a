"""``python -m gateway.sandbox``: runs the sandbox as a separate process.

The process prints ``sandbox ready on http://127.0.0.1:3004`` to stdout as soon as it listens. SIGTERM and SIGINT stop
it.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from gateway.sandbox.app import HOST, running
from gateway.sandbox.sandbox_memory import MemoryUnreadable
from gateway.sandbox.state import SandboxClient
from gateway.startup.collector import collect_as_usual


def main() -> int:
    """Run the sandbox until a signal arrives, then return 0.

    If the sandbox cannot start, print the reason in one line to stderr and return 1.
    """
    options = _arguments().parse_args()
    try:
        secret = options.client_secret_file.read_text().strip()
        client = SandboxClient.register(options.client_id, secret, *options.redirect_uri, name=options.client_name)
        asyncio.run(_serve(client, options))
    except (MemoryUnreadable, UnicodeDecodeError) as fault:
        return _print_error(str(fault))
    except OSError as fault:
        return _print_error(f"cannot start on {HOST}:{options.port}: {fault}")
    return 0


async def _serve(client: SandboxClient, options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with running([client], port=options.port, state=options.state, token_ttl_s=options.token_ttl_s) as sandbox:
        sys.stdout.write(f"sandbox ready on {sandbox.issuer}\n")
        sys.stdout.flush()
        collect_as_usual()
        await stop.wait()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gateway.sandbox", description="A fake Jira.")
    parser.add_argument("--port", type=int, default=3004, help="port on 127.0.0.1; 0 picks a free port (default: 3004)")
    parser.add_argument("--state", type=Path, help="file that keeps grants and issues over a restart")
    parser.add_argument("--client-id", default="sandbox-demo", help="client ID of the registered application")
    parser.add_argument("--client-name", default="Gateway demo", help="its name on the consent page")
    parser.add_argument("--client-secret-file", type=Path, required=True, help="file that contains its secret")
    parser.add_argument(
        "--redirect-uri", action="append", required=True, help="a redirect URI of the application; repeatable"
    )
    parser.add_argument(
        "--token-ttl-s", type=int, default=60, help="lifetime of an access token in seconds (default: 60)"
    )
    return parser


def _print_error(message: str) -> int:
    sys.stderr.write(f"sandbox: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
