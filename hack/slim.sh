#!/usr/bin/env bash
# Remove from installed packages what no process of Stoker reads: hack/slim.sh SITE_PACKAGES. The Dockerfile and the image of
# the cluster with a real node use it, so what runs there runs without these files.
set -euo pipefail
site=$1

# Packages' own tests: a fifth of numpy.
find "$site" -depth -type d -name tests -exec rm -rf {} +

# A class for each type of Kubernetes' API, twice: for blocking and for asyncio programs. Stoker reads objects as JSON, and takes
# the configuration alone from the client, which loads these classes when they are first used.
for client in client aio/client; do
  for part in models api; do
    find "$site/kubernetes/$client/$part" -type f ! -name __init__.py -delete
  done
done
