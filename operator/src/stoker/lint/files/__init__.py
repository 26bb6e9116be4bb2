"""Manifests in files: read, located, checked against the schema, and judged as at admission."""
