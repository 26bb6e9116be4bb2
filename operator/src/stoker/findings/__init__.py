"""The vocabulary that all of Stoker shares: causes, findings, rules, verdicts, and how amounts are read and written."""
