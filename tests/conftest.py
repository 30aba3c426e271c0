"""Settings shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

import sfumato
from cli_tools import share_forks

pytest_plugins = ["servers", "workers"]

# Thousands of tests and the modules they need stay: looking through them for garbage, again and
# again, takes a fifth of the time of collecting them, and some of that of running them.
gc.disable()

# Workers share few processors: threads that turn round and round while they wait for a matrix of a
# hundred rows take many times as long as computing with it. Programs that tests start read it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

SERVERS = ("spark", "postgres", "browser")

REPEATED = {
    "anonymization/test_apriori.py": {
        "test_no_more_is_lost_than_by_apriori_anonymization[0-3-keep]": "[0-3-once]",
    },
    "anonymization/test_as_python.py": {
        "test_groups_are_the_same[lattice-k]": "[lattice-t]",
    },
    "anonymization/test_linkable.py": {
        "test_every_attacker_is_left_with_k_persons[some-1]": "[some-3]",
        "test_every_attacker_is_left_with_k_persons[some-2]": "[some-3]",
        "test_no_attacker_learns_a_sensitive_value[some-alpha]": "[some-distinct]",
        "test_no_attacker_learns_a_sensitive_value[some-entropy]": "[some-closeness]",
        "test_rows_that_look_alike_are_shown_once[some-1]": "[some-all]",
        "test_rows_that_look_alike_are_shown_once[some-2]": "[some-3]",
        "test_the_order_of_the_input_tells_nothing[duckdb-{'m': 2, 'repeats': 'once'}]": (
            "[duckdb-{'m': 'all'}]"
        ),
    },
    "anonymization/test_parts.py": {
        "test_engines_and_workers_make_the_same_release[asked1]": "[asked0]",
        "test_engines_and_workers_make_the_same_release[asked7]": "[asked6]",
        "test_engines_and_workers_make_the_same_release[asked8]": "[asked6]",
        "test_every_method_keeps_its_promise_in_parts[persons-duckdb-best]": (
            "[persons-duckdb-kmember]"
        ),
    },
    "anonymization/test_persons.py": {
        "test_the_order_of_rows_tells_nothing[parquet-duckdb]": "[csv-duckdb]",
    },
    "anonymization/test_threads.py": {
        "test_shares_of_a_lattice_give_what_it_gives_as_a_whole[best]": "[lattice]",
        "test_shares_of_a_lattice_give_what_it_gives_as_a_whole[lattice with l]": "[lattice]",
        "test_the_release_does_not_depend_on_the_number_of_threads[lattice with l]": "[lattice]",
    },
    "engines/test_cells_everywhere.py": {
        "test_protected_columns_and_prices_hold_everywhere[spark]": "[postgres]",
    },
    "engines/test_conformance.py": {
        "test_a_fingerprint_knows_which_row_and_column_a_cell_is_in[spark]": "[postgres]",
        "test_adult_measures_are_the_same[spark]": "[postgres]",
        "test_batches[spark]": "[postgres]",
        "test_fingerprint_knows_rows_not_their_order[spark]": "[postgres]",
        "test_questions_between_batches[spark]": "[postgres]",
        "test_three_hundred_columns[spark]": "[postgres]",
    },
    "engines/test_keys_there.py": {
        "test_keys_are_those_of_all_combinations[spark-True]": "[postgres-True]",
    },
    "engines/test_killed_parts.py": {
        "test_a_client_killed_beside_postgres_leaves_no_release[solving]": "[verifying]",
        "test_a_process_killed_out_of_core_leaves_no_release[verifying]": "[solving]",
    },
    "engines/test_memory_promise.py": {
        "test_a_limit_that_cannot_be_kept_is_refused_before_rows_come[persons]": "[rows]",
        "test_work_on_a_table_that_fits[measure]": "[mondrian]",
    },
    "engines/test_parts.py": {
        "test_every_class_of_every_part_holds_enough_persons[asked0-postgres]": "[asked1-postgres]",
        "test_every_class_of_every_part_holds_enough_persons[asked0-spark]": "[asked0-duckdb]",
        "test_every_class_of_every_part_holds_enough_persons[asked1-spark]": "[asked1-postgres]",
        "test_parts_keep_the_promise_and_every_other_cell[spark]": (
            "test_people_of_a_spark_frame_go_to_the_parts_of_another[spark]"
        ),
        "test_what_travels_is_what_the_documentation_says[spark]": "[postgres]",
        "test_what_travels_of_persons_is_what_the_documentation_says[spark]": "[postgres]",
    },
    "engines/test_persons_everywhere.py": {
        "test_class_sizes_in_persons_are_the_same_everywhere[spark]": "[postgres]",
        "test_dates_move_alike_everywhere[spark-among]": "[postgres-among]",
        "test_dates_move_alike_everywhere[spark-beside]": "[duckdb-beside]",
        "test_every_class_holds_five_persons[spark-cells]": "[spark-mondrian]",
        "test_many_numbers_of_persons_stay_where_they_are[spark]": "[postgres]",
        "test_numbers_of_other_persons_are_found_everywhere[spark]": "[postgres]",
        "test_second_numbers_are_found_where_the_rows_are[spark]": "[postgres]",
    },
    "engines/test_population_everywhere.py": {
        "test_safe_harbor_decides_the_same_everywhere[spark]": "[postgres]",
        "test_the_same_answers_everywhere[spark]": "[postgres]",
    },
    "engines/test_recodings.py": {
        "test_everything_suppressed[spark]": "[postgres]",
        "test_no_rows[spark]": "[postgres]",
        "test_odd_names_survive_a_release[spark]": "[postgres]",
        "test_ordinal_ranges_split_equal_rows[spark]": "[postgres]",
        "test_several_steps_and_floats_as_keys[spark]": "[postgres]",
        "test_zeros_lose_their_sign[spark]": "[postgres]",
    },
    "engines/test_reservoirs.py": {
        "test_merged_rows_are_uniform_over_the_union[sizes0-800]": "[sizes1-800]",
        "test_merged_rows_are_uniform_over_the_union[sizes2-800]": "[sizes1-800]",
        "test_merged_rows_are_uniform_over_the_union[sizes3-800]": "[sizes1-800]",
    },
    "hierarchy/test_boundaries.py": {
        "test_no_release_crosses_an_interval[best-4]": "[best-asked0]",
    },
    "joint/test_joint_cli.py": {
        "test_a_share_that_is_interrupted_leaves_nothing_behind[kill]": "[kill -9]",
    },
    "joint/test_joint_exact.py": {
        "test_the_covariance_is_that_of_the_pooled_rows_and_opened_only_when_asked[cox]": (
            "[stratified]"
        ),
    },
    "joint/test_joint_hostile.py": {
        "test_hostile_parties_lead_to_clean_errors[cox, three]": "[cox, three strata]",
        "test_hostile_parties_lead_to_clean_errors[logistic, three]": "[logistic, two]",
    },
    "joint/test_joint_opened_report.py": {
        "test_totals_of_two_iterations_give_everybody_away[levels1]": "[levels0]",
    },
    "kernels/test_classes.py": {
        "test_answers_do_not_depend_on_threads[numpy-3000]": "[numpy-5000]",
        "test_answers_do_not_depend_on_threads[numpy-5000]": "[compiled-5000]",
    },
    "quasi/test_finding_engines.py": {
        "test_a_mask_is_written_where_the_rows_are[spark]": "[postgres]",
        "test_an_exact_key_scans_at_most_three_times[spark]": "[postgres]",
        "test_exact_searches_agree_with_those_at_home[spark]": "[postgres]",
        "test_what_does_not_fit_is_asked_where_the_rows_are[spark-violations]": (
            "[spark-minimal_keys]"
        ),
    },
    "quasi/test_minimal_keys.py": {
        "test_samples_change_where_the_search_begins_and_not_what_it_finds[samples0]": "[samples2]",
    },
    "quasi/test_scan_engines.py": {
        "test_spark": "test_postgres_asks_few_questions",
    },
    "relational/test_postgres_schema.py": {
        "test_random_houses_are_released_as_in_memory[5]": "[7]",
    },
    "relational/test_spark_dataset.py": {
        "test_frames_are_released_without_keys_and_not_collected": (
            "test_frames_are_released_together_and_not_collected"
        ),
    },
    "release/test_hostile_cells.py": {
        "test_files_that_would_take_all_memory_are_refused_before[orc]": "[xlsx]",
    },
    "report/test_recomputed_releases.py": {
        "test_the_page_of_a_release[demo-cells]": "[survey-cells]",
        "test_the_page_of_a_release[demo-mondrian]": "[credit-mondrian]",
        "test_the_page_of_a_release[survey-full-domain]": "[demo-full-domain]",
    },
    "report/test_report_in_browser.py": {
        "test_every_picture_is_drawn_and_fits[(1400, False)]": "[(400, True)]",
    },
    "secure/test_secure_bayes.py": {
        "test_a_hundred_thousand_rows[burnside-split_columns]": "[burnside-split_cells]",
    },
    "secure/test_secure_decision_tree.py": {
        "test_nursery": "test_tennis",
    },
    "secure/test_secure_hostile.py": {
        "test_hostile_sessions_end_in_clean_errors[bayes of cells]": "[bayes of rows]",
        "test_hostile_sessions_end_in_clean_errors[id3 of cells]": "[id3 of rows]",
    },
    "secure/test_secure_logarithm.py": {
        "test_taylor_bounds_up_to_two_to_the_forty[4]": "[3]",
    },
    "tables/test_text_roundtrip.py": {
        "test_real_tables_survive_text[arrow-pums_oregon_calm_person]": "[arrow-adult]",
        "test_real_tables_survive_text[pandas-pums_oregon_calm_person]": "[pandas-adult]",
    },
    "web/test_leftovers.py": {
        "test_hard_use_leaves_nothing_behind[15]": "[2]",
    },
    "web/test_tree_pages.py": {
        "test_the_command_line_repeats_a_release_with_trees_and_limits[mondrian]": "[full-domain]",
    },
    "web/test_wide_tables.py": {
        "test_300_columns_fit_and_follow": "test_ten_of_86_columns_are_kept_in_few_clicks",
    },
    "web/test_workbench_in_browser.py": {
        "test_other_verbs_are_asked_where_they_belong[0]": "[2]",
        "test_other_verbs_are_asked_where_they_belong[1]": "[2]",
        "test_other_verbs_are_asked_where_they_belong[3]": "[2]",
    },
}
"""What takes long and asks again what another test asks: `make slow` runs it, and `make test` the
other, which stands beside it; of the same name where only its parameters are said."""

os.environ["SOURCE_DATE_EPOCH"] = "1700000000"  # certificates of one test are of one day

# Everybody tries the same examples every time: nothing fails by chance. `make slow` tries all that
# a test asks for, and `make fuzz` new ones, round after round, and keeps what fails.
ONE_OF = 5
"""How many of a test's examples there are for each that `make test` tries …"""
FEWEST = 5
"""… unless there would be fewer."""
settings.register_profile(
    "sfumato",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=True,
    database=None,
)
settings.register_profile("thorough", settings.get_profile("sfumato"))
settings.register_profile(
    "fuzz",
    settings.get_profile("sfumato"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples"),
)
# `make mutants` wants to know that a test fails, and not what the smallest example is.
settings.register_profile(
    "mutants", settings.get_profile("sfumato"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("sfumato")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How `make fuzz` asks for other examples, and for more of them."""
    parser.addoption("--fuzz-seed", type=int, default=0, help="seed of tests that are marked fuzz")
    parser.addoption("--fuzz-times", type=int, default=1, help="how often each test is run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test as often as asked: starting costs more than many a test."""
    times = metafunc.config.getoption("--fuzz-times")
    if times > 1:
        metafunc.fixturenames.append("fuzz_round")
        metafunc.parametrize("fuzz_round", range(times), indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Try some of the examples, except where somebody has the time for all of them."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    asked = getattr(test, "_hypothesis_internal_use_settings", None)
    if asked is None or settings.get_current_profile_name() != "sfumato":
        return
    tried = getattr(test, "examples_asked", asked.max_examples)  # once for all its parameters
    test.examples_asked = tried  # type: ignore[union-attr]
    few = min(tried, max(tried // ONE_OF, FEWEST))
    test._hypothesis_internal_use_settings = settings(asked, max_examples=few)  # type: ignore[union-attr]


@pytest.fixture
def fuzz_round(request: pytest.FixtureRequest) -> int:
    """Which time this is."""
    return int(getattr(request, "param", 0))


@pytest.fixture
def fuzz_seed(request: pytest.FixtureRequest, fuzz_round: int) -> int:
    """The same seed always, except for `make fuzz`."""
    return int(request.config.getoption("--fuzz-seed")) + 10_000 * fuzz_round


def leave_what_is_repeated(items: list[pytest.Item]) -> None:
    """Leave to `make slow` what `REPEATED` lists; all tests together show whether that holds."""
    tests = {item.nodeid.removeprefix("tests/"): item for item in items}
    whole = {name.partition("::")[0] for name in tests} >= REPEATED.keys()
    for place, listed in REPEATED.items():
        for name, other in listed.items():
            again = tests.get(f"{place}::{name}")
            if again is not None:
                again.add_marker("slow")
            first = name.partition("[")[0] + other if other.startswith("[") else other
            asked = tests.get(f"{place}::{first}")
            if whole and (None in (again, asked) or asked.get_closest_marker("slow")):  # type: ignore[union-attr]
                raise pytest.UsageError(f"REPEATED in tests/conftest.py: {place}::{name}: {other}")


def leave_more_of_the_same(items: list[pytest.Item]) -> None:
    """Of a test marked `crossed` leave to `make slow` what tries nothing new.

    `make test` runs so many of its parameters that each value of each of them occurs, and at least
    as many as the mark says. Which ones depends on nothing but their names.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("crossed") is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        (least,) = family[0].get_closest_marker("crossed").args  # type: ignore[union-attr]
        family.sort(key=lambda item: sha256(item.nodeid.encode()).digest())
        tried: set[tuple[str, str]] = set()
        repeated = []
        for item in family:
            values = {(name, repr(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
            if values <= tried:
                repeated.append(item)
            tried |= values
        for item in repeated[max(0, least - len(family) + len(repeated)) :]:
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers, of which each starts with an equal part, meet late and share what they can.

    Tests of a server stand together, so that it is started once: those of Spark, which takes the
    longest to start, at the very beginning, those of others within a part of their own. Tests that
    run whole programs come last: by then another test has compiled what they need.
    """
    leave_more_of_the_same(items)
    if config.getoption("--fuzz-times") == 1:  # else tests are named otherwise
        leave_what_is_repeated(items)

    def server(item: pytest.Item) -> str:
        return next((name for name in SERVERS if item.get_closest_marker(name) is not None), "")

    asked = {name: [item for item in items if server(item) == name] for name in SERVERS}
    rest = sorted(
        (item for item in items if not server(item)),
        key=lambda item: not {"cli", "docs"}.isdisjoint(item.path.parts),
    )
    workers = config.option.workers
    part = len(items) // workers
    items[:] = [*asked.pop("spark"), *rest]
    for turn, tests in enumerate(asked.values(), 1):
        begin = min(turn, workers - 1) * part + part // 4
        items[begin:begin] = tests


def pytest_collection_finish(session: pytest.Session) -> None:
    """From here on garbage is collected, and only among what tests make."""
    if session.config.option.workers > 1:  # what all of them would load is loaded once
        for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
            if module.name != "sfumato.__main__":
                importlib.import_module(module.name)
    gc.freeze()
    # Compiling makes millions of objects and little garbage: looking often takes an eighth of it.
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
    if session.config.option.workers > 1:
        place = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        share_forks({"SFUMATO_INPUT_KEY": str(place / "input.key")})


def pytest_sessionfinish() -> None:
    """At the very end everything is garbage: libraries look whether anything was left behind.

    Workers end at once: of them only what their tests made is looked through.
    """
    gc.unfreeze()


# A shell that starts tests in the background lets them ignore Ctrl-C, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _own_input_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Certificates name inputs under a key; that of whoever runs the tests is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_INPUT_KEY", str(tmp_path_factory.mktemp("home") / "input.key"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_written_where_tests_are_started() -> Iterator[None]:
    """Certificates of tables in a database lie where one is: a test goes to a folder of its own."""
    yield
    assert not list(Path.cwd().glob("*.certificate.json"))


@pytest.fixture(autouse=True, scope="session")
def _long_loops_are_compiled_at_once(request: pytest.FixtureRequest) -> None:
    """All tests together call them for longer than it takes to compile them.

    So none of several workers runs them as Python first, until each of them gives up; whoever runs
    a few tests alone is done before that.
    """
    if request.config.option.workers <= 1:
        return
    from sfumato.anonymization import dual_ascent
    from sfumato.anonymization.cells import bounds, candidates, paper, search, table
    from sfumato.anonymization.methods import kmember, lattice, mondrian, pricing
    from sfumato.hierarchy import tree
    from sfumato.joint import attack
    from sfumato.kernels import sorted_groups
    from sfumato.privacy import rules
    from sfumato.release import label_matching

    for loop in (
        attack._search_rows, attack.reduce_lattice, bounds._cheapest_prices,
        bounds._lower_to_feasible, candidates._mine, candidates._near_groups,
        candidates._nearest_distances, dual_ascent._dual_value, kmember._cluster_blocks,
        label_matching.build_tree, label_matching.claim_points, label_matching.count_people,
        label_matching.count_persons, lattice._deal, lattice._name_taken, mondrian._cut_blocks,
        paper._take_classes, pricing.total_loss, rules.groups_hold, search._find_elsewhere,
        search._open_groups, search._reinsert, sorted_groups._tied_groups, table.refresh,
        table.total, tree.lowest_common_ancestors,
    ):  # fmt: skip
        loop.patience = 0.0


@pytest.fixture(autouse=True, scope="session")
def _one_script_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The script of living charts takes a second to make: one worker does, and others read it."""
    try:
        import vl_convert
    except ImportError:
        yield
        return
    place, made = tmp_path_factory.getbasetemp() / "scripts", vl_convert.javascript_bundle
    place.mkdir(exist_ok=True)

    def once(own: str) -> str:
        kept = place / sha256(own.encode()).hexdigest()
        if not kept.exists():
            mine = kept.with_suffix(f".{os.getpid()}")
            mine.write_text(made(own), encoding="utf-8", newline="")
            mine.replace(kept)
        return kept.read_bytes().decode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "javascript_bundle", once)
        yield


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a secret key."""
    place = tmp_path_factory.mktemp("key") / "secret.key"
    place.write_text("5b1f0c9ae37d42886f10d9c4b7a2e35d8c61f4907ab35e2dd08f9b16c7423ae5")
    place.chmod(0o600)
    return place
