"""Rules over a running job's facts and series."""
