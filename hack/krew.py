"""Make the archive and the manifest by which krew installs `kubectl stoker`.

    python hack/krew.py URI [FOLDER]    writes kubectl-stoker.tar.gz and stoker.yaml to FOLDER (build/krew)

URI is where the release's archive will be. The archive is the same, byte by byte, whenever it is made from the same
files, so its sum can be checked.
"""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

from stoker import __version__

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "kubectl-stoker.tar.gz"
FILES = (("kubectl-stoker", ROOT / "krew" / "kubectl-stoker", 0o755), ("LICENSE", ROOT / "LICENSE", 0o644))
"""Name in the archive, source, and permissions."""


def archive() -> bytes:
    """The archive: without times, users or the permissions of this checkout."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as written:
        for name, source, mode in FILES:
            content = source.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            written.addfile(entry, io.BytesIO(content))
    return gzip.compress(tar.getvalue(), mtime=0)


def manifest(uri: str, content: bytes) -> str:
    """The manifest for an archive that is to be found at this URI."""
    text = (ROOT / "krew" / "stoker.yaml").read_text().partition("\n")[2]
    values = {"VERSION": f"v{__version__}", "URI": uri, "SHA256": hashlib.sha256(content).hexdigest()}
    for field, value in values.items():
        text = text.replace(f": {field}\n", f": {value}\n")
    return text


def main(arguments: list[str]) -> int:
    """Run the command line."""
    if len(arguments) not in {1, 2} or not arguments[0].startswith("https://"):
        print("Usage: python hack/krew.py https://.../kubectl-stoker.tar.gz [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[1]) if len(arguments) > 1 else ROOT / "build" / "krew"
    folder.mkdir(parents=True, exist_ok=True)
    content = archive()
    (folder / ARCHIVE).write_bytes(content)
    (folder / "stoker.yaml").write_text(manifest(arguments[0], content))
    print(f"wrote {folder / ARCHIVE} and {folder / 'stoker.yaml'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
