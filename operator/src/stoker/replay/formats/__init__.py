"""The forms in which `stoker replay` says what it has found out."""
