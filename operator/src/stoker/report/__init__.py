"""Where the GPU-hours went: sums over many jobs, by namespace, team, user, cause and stage."""

from stoker.report.assumptions import Assumption, hours, percent
from stoker.report.balance import Balance, settle
from stoker.report.ledger import Account, Dimension, Ledger, account
from stoker.report.statement import CauseLine, JobNotes, Row, Statement, state

__all__ = [
    "Account",
    "Assumption",
    "Balance",
    "CauseLine",
    "Dimension",
    "JobNotes",
    "Ledger",
    "Row",
    "Statement",
    "account",
    "hours",
    "percent",
    "settle",
    "state",
]
