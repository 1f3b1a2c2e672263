#!/usr/bin/env python3
"""A GnuCash book: accounts and transactions, by piecash.

    gnucash_book.py create FILE        makes a book with accounts and transactions
    gnucash_book.py work FILE NAME     adds, changes and deletes transactions as NAME
    gnucash_book.py check FILE NAME... opens the book, adds up all accounts, and requires what each NAME has done
"""

import datetime
import decimal
import sys
import warnings

from driver import require, run
from sqlalchemy import exc

warnings.filterwarnings("ignore", category=exc.SAWarning)

import piecash  # noqa: E402  its warnings are about its own mapping


def pay(book, amount, text, account="Food"):
    """Adds a transaction that pays from the bank account."""
    euros = book.default_currency
    bank = book.accounts(name="Bank")
    return piecash.Transaction(
        currency=euros, description=text, post_date=datetime.date(2026, 3, 1),
        splits=[
            piecash.Split(account=book.accounts(name=account), value=decimal.Decimal(amount), memo=text),
            piecash.Split(account=bank, value=-decimal.Decimal(amount)),
        ],
    )


def create(path):
    with piecash.create_book(path, currency="EUR", overwrite=False) as book:
        euros = book.default_currency
        assets = piecash.Account("Assets", "ASSET", parent=book.root_account, commodity=euros, placeholder=True)
        piecash.Account("Bank", "BANK", parent=assets, commodity=euros)
        expenses = piecash.Account("Expenses", "EXPENSE", parent=book.root_account, commodity=euros)
        piecash.Account("Food", "EXPENSE", parent=expenses, commodity=euros)
        book.flush()
        for n in range(20):
            pay(book, f"{n}.50", f"first {n}")["notes"] = f"note {n}"
        book.save()


def work(path, name):
    place = NAMES.index(name)
    with piecash.open_book(path, readonly=False, open_if_lock=True) as book:
        piecash.Account(
            f"{name}'s", "EXPENSE", parent=book.accounts(name="Expenses"), commodity=book.default_currency
        )
        book.flush()
        for n in range(4):
            pay(book, "10.25", f"{name} {n}", account=f"{name}'s")["notes"] = f"by {name}"
        changed = book.transactions(description=f"first {place}")
        changed.description = f"changed by {name}"
        for split in changed.splits:
            split.value += 5 if split.account.name == "Food" else -5
            split.quantity = split.value
        book.delete(book.transactions(description=f"first {10 + place}"))
        book.save()


def check(path, *names):
    with piecash.open_book(path, readonly=True, open_if_lock=True) as book:
        for transaction in book.transactions:
            total = sum(split.value for split in transaction.splits)
            require(total == 0, f"{transaction.description} has a difference of {total}")
            require(len(transaction.splits) == 2, f"the splits of {transaction.description}")
        balance = {account.name: account.get_balance() for account in book.accounts}
        require(balance["Bank"] == -balance["Expenses"], f"the balances: {balance}")
        expected = sum(decimal.Decimal(f"{n}.50") for n in range(20))
        for name in names:
            place = NAMES.index(name)
            expected += 4 * decimal.Decimal("10.25") + 5 - decimal.Decimal(f"{10 + place}.50")
            require(balance[f"{name}'s"] == 4 * decimal.Decimal("10.25"), f"{name}'s account")
            notes = [t["notes"].value for t in book.transactions if t.description.startswith(f"{name} ")]
            require(notes == 4 * [f"by {name}"], f"the notes of {name}'s transactions")
        require(balance["Expenses"] == expected, f"the sum of all: {balance['Expenses']}, not {expected}")
        print(f"{len(book.transactions)} transactions, {balance['Expenses']} EUR; all balances agree")


NAMES = ["anna", "ben"]

if __name__ == "__main__":
    run(sys.argv, create=create, work=work, check=check)
