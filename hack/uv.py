"""Run uv with the machine's settings of pip, which uv does not read: `python hack/uv.py ARGUMENTS...`.

uv is the one of the interpreter that runs this. What is set for uv itself (UV_..., SSL_CERT_FILE) counts before what is
set for pip, by whichever of pip's files or variables.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
}
"""pip's options that say where packages come from, and the variable by which uv is told the same."""
LEVELS = ("global", "user", "site", "install", ":env:")
"""Where pip's options stand, the ones that count most last."""


def environment(listing: str, own: Mapping[str, str]) -> dict[str, str]:
    """Uv's variables, from what `pip config list` prints (lines such as `global.cert='/etc/ca.crt'`) and our own."""
    found: dict[int, dict[str, str]] = {}
    for line in listing.splitlines():
        key, equals, text = line.partition("=")
        level, _, option = key.rpartition(".")
        variable = SETTINGS.get(option)
        if equals and variable and level in LEVELS:
            value = ast.literal_eval(text)
            separator = "," if variable == "UV_FIND_LINKS" else " "
            found.setdefault(LEVELS.index(level), {})[variable] = separator.join(str(value).split())
    merged = {name: value for _, settings in sorted(found.items()) for name, value in settings.items()}
    return {**merged, **own}


def main() -> None:
    """Become uv."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listing = subprocess.run(pip, check=True, capture_output=True, text=True).stdout
    uv = Path(sys.executable).with_name("uv")
    os.execve(uv, [str(uv), *sys.argv[1:]], environment(listing, os.environ))  # noqa: S606 - uv's own arguments


if __name__ == "__main__":
    main()
