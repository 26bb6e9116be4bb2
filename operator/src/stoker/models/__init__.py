"""Value types and vocabularies; imports nothing of Stoker above it."""
