"""Finds the rules by walking the packages of rules."""
