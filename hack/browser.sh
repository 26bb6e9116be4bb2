#!/usr/bin/env bash
# A Chromium for the tests of the report's page: the one that is here, else Debian's, which root can install. Prints
# where it is. Without one it says what to do, and the tests that need it say that they were skipped, or fail on CI.
set -euo pipefail

found() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable \
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
    if [ -n "$name" ] && command -v "$name" > /dev/null; then command -v "$name" && return 0; fi
  done
  return 1
}

if path=$(found); then
  echo "browser: $path"
elif command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
  echo "browser: apt-get install chromium"
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core > /dev/null ||
    echo "warning: chromium could not be installed" >&2
  if path=$(found); then echo "browser: $path"; fi
else
  echo "warning: no Chromium or Google Chrome: sudo apt-get install chromium (CHROMIUM=... names one elsewhere)" >&2
fi
if [ -n "${CI:-}" ] && ! found > /dev/null; then
  echo "error: on CI the report's page must be tried in a browser" >&2
  exit 1
fi
