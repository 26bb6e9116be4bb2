#!/usr/bin/env bash
# Make the development environment: hack/venv.sh FOLDER. PYTHON chooses the interpreter (3.11 or newer).
#
# pip installs uv alone, and uv the rest, in a tenth of the time. Everything comes from requirements/test.txt, pinned and
# hashed, uv and the build backend too; then the project itself is installed in place without reaching for anything else.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
exec >&2 # what a target prints for a shell stands alone on standard output

missing() { # missing WHAT DEBIAN_PACKAGE BREW_PACKAGE
  {
    echo "error: $1"
    if [ "$(uname -s)" = Darwin ]; then echo "  brew install $3"; else echo "  sudo apt-get install $2"; fi
  } >&2
  exit 1
}

recent() { command -v "$1" > /dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }

if [ -z "${PYTHON:-}" ]; then
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if recent "$candidate"; then PYTHON=$candidate && break; fi
  done
fi
if [ -z "${PYTHON:-}" ]; then missing "no Python 3.11 or newer on PATH (PYTHON=... names one elsewhere)" python3 python; fi
if ! recent "$PYTHON"; then missing "PYTHON=$PYTHON is not a Python 3.11 or newer" python3 python; fi
if ! "$PYTHON" -c 'import ensurepip, venv' 2> /dev/null; then
  missing "$PYTHON can't make virtual environments" python3-venv python
fi

packages=$(grep -c '^[a-z0-9]' requirements/test.txt)
echo "$venv: $("$PYTHON" --version), $packages packages: half a minute, or as long as their download takes"
started=$SECONDS
"$PYTHON" -m venv "$venv"
only_uv=$(mktemp)
trap 'rm -f "$only_uv"' EXIT
awk '/^[a-z0-9]/ { keep = /^uv==/ } keep' requirements/test.txt > "$only_uv"
"$venv/bin/python" -m pip --disable-pip-version-check --quiet install --require-hashes --requirement "$only_uv"
uv() { VIRTUAL_ENV=$(cd "$venv" && pwd) "$venv/bin/python" hack/uv.py pip "$@"; }
uv install --require-hashes --requirement requirements/test.txt
uv install --quiet --no-deps --no-build-isolation --editable .
uv check --quiet
echo "$venv: ready after $((SECONDS - started)) s"
