#!/usr/bin/env bash
# Make the development environment: hack/venv.sh FOLDER. PYTHON chooses the interpreter (3.11 or newer).
#
# Everything comes from requirements/test.txt, pinned and hashed, the build backend too; then the project itself is
# installed in place without reaching for anything else.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

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

echo "$venv: $("$PYTHON" --version), about a minute"
"$PYTHON" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --require-hashes --requirement requirements/test.txt
pip install --no-deps --no-build-isolation --editable .
pip check > /dev/null
