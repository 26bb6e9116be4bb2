#!/usr/bin/env bash
# What the tests take from the system: a Chromium for the report's page, libfaketime for clocks that are off, and what
# containers run with on the cluster with a real node. What is here is taken, what is missing is Debian's, which root can
# install. Where something stays missing, the tests that need it say that they were skipped; on CI this fails instead.
set -euo pipefail

# type -P finds programs alone, command -v functions as well.
find_chromium() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable \
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
    if [ -n "$name" ] && type -P "$name"; then return 0; fi
  done
  return 1
}

find_node() { [ "$(uname)" != Linux ] || { type -P runc && type -P nft && type -P ip; }; }

find_faketime() { compgen -G "/usr/lib/*/faketime/libfaketime.so.1"; }

needed() { # sets $missing
  missing=""
  find_chromium > /dev/null || missing+=" chromium fonts-dejavu-core"
  find_faketime > /dev/null || missing+=" libfaketime"
  find_node > /dev/null || missing+=" runc nftables iproute2"
  missing=${missing# }
}

needed
if [ -n "$missing" ] && command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
  echo "packages: apt-get install $missing"
  apt-get update -qq || true
  # shellcheck disable=SC2086 # several names
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing > /dev/null ||
    echo "warning: $missing could not be installed" >&2
  needed
fi
if [ -n "$missing" ]; then
  echo "warning: missing $missing: sudo apt-get install $missing (CHROMIUM=... names a browser elsewhere)" >&2
  if [ -n "${CI:-}" ]; then
    echo "error: on CI no test may be skipped for want of a package" >&2
    exit 1
  fi
fi
