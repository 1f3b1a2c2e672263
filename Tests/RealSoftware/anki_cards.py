#!/usr/bin/env python3
"""An Anki collection: notes, cards, decks and reviews, by Anki's own library.

    anki_cards.py create FILE        makes a collection with cards
    anki_cards.py work FILE NAME     adds, edits, moves, reviews and deletes cards as NAME
    anki_cards.py check FILE NAME... runs Anki's own check of the collection, and requires what each NAME has done
"""

import sys

from anki.collection import Collection
from driver import require, run


def add(cards, deck, front, back):
    """Adds a note with its card to a deck."""
    note = cards.new_note(cards.models.by_name("Basic"))
    note["Front"], note["Back"] = front, back
    cards.add_note(note, cards.decks.id(deck))
    return note


def create(path):
    cards = Collection(path)
    for n in range(40):
        add(cards, "Words", f"word {n}", f"meaning {n}").add_tag("first")
    cards.close()


def work(path, name):
    place = NAMES.index(name)
    cards = Collection(path)
    for n in range(5):
        note = add(cards, f"By {name}", f"{name} {n}", "new")
        note.add_tag(name)
        cards.update_note(note)
    edited = cards.get_note(cards.find_notes(f'"front:word {place}"')[0])
    edited["Back"] = f"changed by {name}"
    cards.update_note(edited)
    cards.remove_notes(cards.find_notes(f'"front:word {10 + place}"'))
    cards.set_deck(cards.find_cards(f'"front:word {20 + place}"'), cards.decks.id(f"By {name}"))
    card = cards.get_card(cards.find_cards(f'"front:{name} 0"')[0])
    card.start_timer()
    cards.sched.answerCard(card, 3)
    cards.close()


def check(path, *names):
    cards = Collection(path)
    try:
        report, is_sound = cards.fix_integrity()
        require(is_sound, f"the check of the collection: {report}")
        require(cards.db.scalar("PRAGMA integrity_check") == "ok", "SQLite's check of the file")
        for name in names:
            place = NAMES.index(name)
            require(len(cards.find_notes(f"tag:{name}")) == 5, f"{name}'s notes")
            require(len(cards.find_cards(f'"deck:By {name}"')) == 6, f"the cards of {name}'s deck")
            edited = cards.get_note(cards.find_notes(f'"front:word {place}"')[0])
            require(edited["Back"] == f"changed by {name}", f"the note that {name} edited")
            require(not cards.find_notes(f'"front:word {10 + place}"'), f"the note that {name} deleted")
            card = cards.get_card(cards.find_cards(f'"front:{name} 0"')[0])
            require(card.reps == 1, f"{name}'s review")
        reviews = cards.db.scalar("SELECT count(*) FROM revlog WHERE cid IN (SELECT id FROM cards)")
        require(reviews == len(names), f"the reviews of existing cards: {reviews}")
        print(f"{cards.note_count()} notes, {cards.card_count()} cards; Anki's check finds nothing to repair")
    finally:
        cards.close()


NAMES = ["anna", "ben"]

if __name__ == "__main__":
    run(sys.argv, create=create, work=work, check=check)
