"""Models refuse what cannot be asked; rules and pseudonyms."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.anonymization.actions import pseudonyms
from sfumato.errors import ColumnError, InputError, ParameterError
from sfumato.hierarchy import taxonomy
from sfumato.privacy import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Likeness,
    Model,
    RecursiveDiversity,
    SensitiveColumn,
    Sensitivity,
    check,
    column_sets,
    compile_rules,
    minimum_rows,
    require_reachable,
    with_crowd,
)
from sfumato.privacy.rules import by_entries, few_groups_hold, holds, sides_hold

KEY = b"0123456789abcdef"
LETTERS = taxonomy([("a", "early"), ("b", "early"), ("early", "any"), ("c", "any")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KAnonymity(0), "k = 0"),
        (lambda: KAnonymity(2.5), "k = 2.5"),  # type: ignore[arg-type]
        (lambda: KAnonymity(True), "k = True"),
        (lambda: KMap(-1), "k = -1"),
        (lambda: DistinctDiversity(0, "s"), "l = 0"),
        (lambda: EntropyDiversity(0.5, "s"), "l >= 1"),
        (lambda: EntropyDiversity(float("nan"), "s"), "l = nan"),
        (lambda: RecursiveDiversity(0, 2, "s"), "c > 0"),
        (lambda: RecursiveDiversity(1, 0, "s"), "l = 0"),
        (lambda: Closeness(-0.1, "s"), "t >= 0"),
        (lambda: Closeness(0.1, "s", "far"), "no distance `far`"),  # type: ignore[arg-type]
        (lambda: Closeness(0.1, "s", "hierarchical"), "needs a hierarchy"),
        (lambda: Sensitivity(3, 2, "s"), "p = 3 distinct values do not fit"),
        (lambda: AlphaK(0, 2, "s"), "α > 0"),
        (lambda: AlphaK(1.5, 2, "s"), "not a share"),
    ],
)
def test_impossible_demands(make: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()  # type: ignore[operator]


def test_numpy_integers_are_integers() -> None:
    assert KAnonymity(np.int64(3)).k == 3


def test_the_largest_k_counts() -> None:
    models = [KAnonymity(3), Sensitivity(2, 7, "s"), AlphaK(0.5, 5, "s")]
    assert minimum_rows(models) == 7
    assert minimum_rows([DistinctDiversity(2, "s")]) == 1


def test_rules_without_sensitive_columns() -> None:
    rules = compile_rules([KAnonymity(4)])
    nothing = np.zeros(0, dtype=np.int64)
    assert rules.offsets.tolist() == [0]
    assert not holds(3, nothing, rules)
    assert holds(4, nothing, rules)


def test_rules_over_two_columns() -> None:
    first, second = SensitiveColumn(np.array([5, 5])), SensitiveColumn(np.array([4, 3, 3]))
    models = [DistinctDiversity(2, "a"), DistinctDiversity(3, "b")]
    rules = compile_rules(models, {"a": first, "b": second})
    assert rules.offsets.tolist() == [0, 2, 5]
    assert holds(3, np.array([1, 2, 1, 1, 1]), rules)
    assert not holds(3, np.array([0, 3, 1, 1, 1]), rules)
    assert not holds(3, np.array([1, 2, 0, 2, 1]), rules)


def test_rules_refuse_unknown_columns() -> None:
    with pytest.raises(ColumnError, match="Did you mean `illness`"):
        compile_rules([DistinctDiversity(2, "ilness")], {"illness": SensitiveColumn(np.ones(2))})


def test_groups_with_people_are_judged_by_their_rows() -> None:
    illness = {"illness": SensitiveColumn(np.array([5, 5]))}
    rules = with_crowd(compile_rules([KAnonymity(2), DistinctDiversity(2, "illness")], illness), 4)
    # counts: flu, gout; rows, people, people's missing illness
    assert holds(6, np.array([1, 1, 2, 4, 4]), rules)
    assert not holds(6, np.array([2, 0, 2, 4, 4]), rules), "people are not diverse"
    assert not holds(5, np.array([1, 1, 2, 3, 3]), rules), "too few people"
    assert not holds(9, np.array([1, 0, 1, 8, 8]), rules), "too few rows"
    assert holds(3, np.array([0, 0, 0, 3, 3]), rules), "nobody is released"


def test_pseudonyms_depend_on_the_key_and_the_value_only() -> None:
    names = pa.array(["Ada", "Grace", None, "Ada"])
    made = pseudonyms(names, KEY).to_pylist()
    assert made[0] == made[3]
    assert made[2] is None
    assert len(set(made)) == 3
    assert made[0] != pseudonyms(names, KEY[::-1])[0].as_py()
    numbers = pseudonyms(pa.array([17]), KEY)
    assert numbers.equals(pseudonyms(pa.array(["17"]), KEY))
    assert numbers.equals(pseudonyms(pa.array(["17"]).dictionary_encode(), KEY))


def test_a_pseudonym_is_the_beginning_of_hmac_sha256() -> None:
    # RFC 4231, test case 7
    key = bytes([0xAA]) * 131
    text = (
        "This is a test using a larger than block-size key and a larger than block-size data. "
        "The key needs to be hashed before being used by the HMAC algorithm."
    )
    assert pseudonyms(pa.array([text]), key)[0].as_py() == "9b09ffa71b942fcb27635fbcd5b0e944"


def test_a_key_of_pseudonyms_is_long_enough() -> None:
    with pytest.raises(InputError, match="at least 16"):
        pseudonyms(pa.array(["x"]), b"short")


ILLNESS = {"s": SensitiveColumn(np.array([6, 3, 0, 1]), pa.array(["a", "b", "c", "d"]))}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KAnonymity(11), "k = 11 cannot be reached: the table has 10 rows"),
        (AlphaK(0.7, 11, "s"), "10 rows"),
        (DistinctDiversity(4, "s"), "all 10 rows together hold 3 .* in 6 rows. Ask for l <= 3"),
        (Sensitivity(4, 5, "s"), "Ask for p <= 3"),
        (EntropyDiversity(3, "s"), r"has 2\.4.*6 of 10 rows hold one value.*Ask for l <= 2\.4"),
        (
            RecursiveDiversity(1, 2, "s"),
            r"6 of 10 rows .* 2nd commonest and rarer ones 4 times. Ask for c > 1\.5",
        ),
        (RecursiveDiversity(1, 5, "s"), "the 5th commonest and rarer ones 0 times. Ask for l <= 3"),
        (AlphaK(0.5, 2, "s"), r"Ask for α >= 0\.6"),
        (AlphaK(0.2, 2, "s", value="b"), r"Ask for α >= 0\.3"),
    ],
)
def test_demands_that_nothing_can_reach(model: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        require_reachable([model], ILLNESS, 10)  # type: ignore[list-item]


def test_what_missing_values_make_out_of_reach_is_said() -> None:
    some = {"s": SensitiveColumn(np.array([1, 3]), pa.array(["a", None]))}
    with pytest.raises(ParameterError, match=r"1 of 4 rows holds .* values of others are missing"):
        require_reachable([EntropyDiversity(2, "s")], some, 4)
    none = {"s": SensitiveColumn(np.array([4]), pa.array([None], pa.string()))}
    for model in (DistinctDiversity(1, "s"), EntropyDiversity(2, "s"), AlphaK(0.5, 2, "s")):
        with pytest.raises(ParameterError, match="reached: every cell of `s` is missing"):
            require_reachable([model], none, 4)


def test_demands_at_the_very_limit_can_be_reached() -> None:
    models = [
        KAnonymity(10),
        DistinctDiversity(3, "s"),
        Sensitivity(3, 10, "s"),
        EntropyDiversity(2.4, "s"),
        RecursiveDiversity(1.51, 2, "s"),
        AlphaK(0.6, 10, "s"),
        AlphaK(0.1, 10, "s", value="d"),
        Closeness(0, "s"),
    ]
    require_reachable(models, ILLNESS, 10)
    rules = compile_rules(models, ILLNESS)
    assert holds(10, ILLNESS["s"].counts, rules)


@pytest.mark.parametrize(
    ("counts", "just_held", "just_missed"),
    [
        ([3, 1, 0], KAnonymity(4), KAnonymity(5)),
        ([3, 1, 0], DistinctDiversity(2, "s"), DistinctDiversity(3, "s")),
        ([3, 1, 0], EntropyDiversity(1.7547, "s"), EntropyDiversity(1.7549, "s")),
        ([3, 1, 0], RecursiveDiversity(3.01, 2, "s"), RecursiveDiversity(3, 2, "s")),
        ([3, 1, 1], RecursiveDiversity(1.51, 2, "s"), RecursiveDiversity(1.5, 2, "s")),
        ([3, 1, 1], RecursiveDiversity(3.01, 3, "s"), RecursiveDiversity(3, 3, "s")),
        ([3, 1, 0], Sensitivity(2, 4, "s"), Sensitivity(3, 4, "s")),
        ([3, 1, 0], Sensitivity(2, 4, "s"), Sensitivity(2, 5, "s")),
        ([3, 1, 0], AlphaK(0.75, 1, "s"), AlphaK(0.7499, 1, "s")),
        ([3, 1, 0], AlphaK(0.75, 4, "s"), AlphaK(0.75, 5, "s")),
        ([3, 1, 0], AlphaK(0.75, 4, "s", value="a"), AlphaK(0.7499, 4, "s", value="a")),
        ([3, 1, 0], Closeness(0.35, "s"), Closeness(0.3499, "s")),
        ([3, 1, 0], Closeness(0.275, "s", "ordered"), Closeness(0.2749, "s", "ordered")),
        (
            [3, 1, 0],
            Closeness(0.275, "s", "hierarchical", LETTERS),
            Closeness(0.2749, "s", "hierarchical", LETTERS),
        ),
        ([3, 1, 0], Likeness(0.875, "s"), Likeness(0.8749, "s")),
        ([4, 0, 0], Likeness(5, "s"), Likeness(5, "s", "enhanced")),
    ],
)
def test_both_sides_of_a_limit(counts: list[int], just_held: Model, just_missed: Model) -> None:
    """One class of a table with 10, 10 and 5 rows; the others are a class that always holds."""
    values = pa.array(["a", "b", "c"])
    whole = {"s": SensitiveColumn(np.array([10, 10, 5]), values)}
    held = np.array(counts)
    codes = {"q": np.repeat([0, 1], 3), "s": np.tile(np.arange(3), 2)}
    rows = np.r_[held, [10, 10, 5] - held]
    for model, fine in ((just_held, True), (just_missed, False)):
        rules = compile_rules([model], whole)
        assert holds(int(held.sum()), held, rules) is fine
        group = np.zeros(3, np.int64), 1, held, np.arange(3)[:, None]
        assert few_groups_hold(*group, rules).tolist() == [fine]
        found = check([model], codes, ["q"], counts=rows, values={"s": values})
        assert found.holds is fine
        assert found.findings[0].failing_rows == (0 if fine else held.sum())


@pytest.mark.parametrize(
    ("counts", "just_held", "just_missed"),
    [
        ([3, 1, 0], DistinctDiversity(2, "s"), DistinctDiversity(3, "s")),
        ([3, 1, 0], EntropyDiversity(1.7547, "s"), EntropyDiversity(1.7549, "s")),
        ([3, 1, 0], RecursiveDiversity(3.01, 2, "s"), RecursiveDiversity(3, 2, "s")),
        ([3, 1, 1], RecursiveDiversity(3.01, 3, "s"), RecursiveDiversity(3, 3, "s")),
        ([3, 1, 0], AlphaK(0.75, 1, "s"), AlphaK(0.7499, 1, "s")),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_both_sides_of_a_limit_of_either_part_of_a_cut(
    counts: list[int], just_held: Model, just_missed: Model, side: int
) -> None:
    held = np.array(counts)
    rows = np.r_[held, [10, 10, 5] - held]
    there = rows > 0
    sides = (np.repeat([side, 1 - side], 3) == 1)[there].astype(np.int64)
    codes = np.tile(np.arange(3), 2)[None, there]
    for model, fine in ((just_held, True), (just_missed, False)):
        rules = compile_rules([model], {"s": SensitiveColumn(np.array([10, 10, 5]))})
        assert by_entries(rules)
        none = np.zeros((2, int(rules.offsets[-1])), np.int64)
        assert sides_hold(sides, rows[there], codes, rules, none) is fine


def test_a_column_is_one_quasi_identifier() -> None:
    with pytest.raises(ColumnError, match="`age` is named twice among the quasi-identifiers"):
        column_sets([["zip"], ["age", "sex", "age"]])
