"""Fixes: `propose` computes the change that a rule offers, `apply` makes it in a file's text by edits of its own places
(`scalars` inside one scalar), and `fixer` goes through the findings of a file and takes back what did harm.
"""
