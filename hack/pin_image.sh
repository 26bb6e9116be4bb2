#!/usr/bin/env bash
# Ask the registry for the digest of a tag, for all platforms, and print the image by it: hack/pin_image.sh python:3.13-slim
set -euo pipefail
tag=$1
digest=$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
if ! [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then
  echo "error: $tag: the registry gave no digest but '$digest'" >&2
  exit 1
fi
echo "$tag@$digest"
