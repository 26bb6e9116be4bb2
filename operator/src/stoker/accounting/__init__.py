"""Where the GPU-hours went: sums over many jobs, by namespace, team, user, cause and stage."""

from stoker.accounting.assumptions import Assumption, hours, percent
from stoker.accounting.balance import Balance, settle
from stoker.accounting.ledger import Account, Dimension, Ledger, account
from stoker.accounting.statement import CauseLine, JobNotes, Row, Statement, state

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
