"""Telling each other which categories occur."""

from __future__ import annotations

import pytest

from sfumato.errors import ParameterError, PeerError
from sfumato.secure import pool_categories, together

HERS = {"stage": ["II", "I"], "age": ["10", "9"]}
HIS = {"age": ["9", "100"], "stage": ["I", "III"]}


def pooling(mine, *, same_columns=True):
    return lambda session: pool_categories(session, mine, same_columns=same_columns)


def test_all_categories_are_taken_in_one_order():
    hers, his = together(pooling(HERS), pooling(HIS))
    assert hers == his
    assert hers.columns == ("stage", "age")
    assert hers.values == (("I", "II", "III"), ("9", "10", "100"))


def test_what_is_told_does_not_follow_the_order_of_rows():
    """In the order of their first rows the first categories of all columns are the first row."""

    def told(mine):
        sent = {}

        def hers(session):
            exchange = session.exchange
            session.exchange = lambda step, body, **rest: (
                sent.update({step: bytes(body)}) or exchange(step, body, **rest)
            )
            pool_categories(session, mine, same_columns=True)

        together(hers, pooling(HIS))
        return sent["columns"], sent["categories"]

    turned = {name: values[::-1] for name, values in HERS.items()}
    assert told(HERS) == told(turned)


def test_columns_of_one_side_are_taken_where_cells_are_split():
    hers, his = together(
        *(pooling({name: side[name]}, same_columns=False) for name, side in
          (("stage", HERS), ("age", HIS)))
    )  # fmt: skip
    assert hers == his
    assert hers.columns == ("stage", "age")


def test_categories_of_a_column_that_the_other_lacks_are_never_sent():
    sent, errors = [], []

    def party(mine):
        def call(session):
            exchange = session.exchange
            session.exchange = lambda step, body, **rest: (
                sent.append(body) or exchange(step, body, **rest)
            )
            try:
                pool_categories(session, mine, same_columns=True)
            except PeerError as error:
                errors.append(str(error))
                raise

        return call

    with pytest.raises(PeerError):
        together(party(HERS), party({**HIS, "doctor": ["Quincy"]}))
    assert len(errors) == 2
    assert any("it lacks `doctor`" in error for error in errors)
    assert any("it has 1 that this side lacks" in error for error in errors)
    assert any(b"doctor" in body for body in sent)
    assert not any(b"Quincy" in body for body in sent)


def test_two_empty_tables_are_refused_in_plain_words():
    nothing = {"stage": [], "age": []}
    with pytest.raises(ParameterError, match="neither side has any rows"):
        together(pooling(nothing), pooling(nothing))
