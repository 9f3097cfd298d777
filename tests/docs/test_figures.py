"""Figures that stand in sentences are those of the records that the sentences link to."""

import json
import shlex
from pathlib import Path
from statistics import fmean, stdev

from grid import run_apps

from fedkd_flwr.report.table import footer
from fedkd_flwr.settings.run_settings import read_settings

ROOT = Path(__file__).parents[2]


def _page(name):
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def _record(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def _short(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def test_the_page_prints_the_claim_of_its_run_which_few_parties_have_too(tmp_path):
    page = _page("howto/private-run.md")
    command = (
        page.partition("fedkd simulate ")[2].partition(" --parties")[0].replace("\\ ", "").replace("10000", "2000")
    )
    record = run_apps(tmp_path, 4, {**read_settings(shlex.split(command)), "num-parties": 4, "centralised": False})
    claim = page.partition("```text ")[2].partition(" ```")[0]
    assert claim.startswith("privacy: protects: everything one party holds")
    assert claim in " ".join(" ".join(footer(record)).split())


def test_what_lacking_columns_cost():
    lost = {"server": [], "parties": [], "pooled": []}
    for case, seeds in _record("missing-columns")["found"].items():
        for whose in lost.keys() & next(iter(seeds.values()))["all"] if case.startswith("Adult") else ():
            lost[whose].append(fmean(one["all"][whose] - one["lacking"][whose] for one in seeds.values()))
        assert len(seeds) == 5
    server, parties, pooled = ([_short(each(losses)) for each in (min, max)] for losses in lost.values())
    page = _page("howto/your-data.md")
    assert f"the server's model lost {server[1]} at most, a party's own {' to '.join(parties)} ([five seeds]" in page
    assert f"One model of all rows lost {' to '.join(pooled)} on a party's columns." in page


def test_what_silos_by_file_are_equal_in_and_send():
    found = _record("files-beside-nodes")
    assert found["L0"]["equal labels sent"]
    assert found["L0"]["equal predictions of the server's model"] == 1.0
    assert found["L2"]["equal charges"]
    assert found["L2"]["equal claims"]
    sizes = [found[level]["bytes of all three files of a silo"] / 1000 for level in ("L0", "L2")]
    assert f"A silo's files had {min(sizes):.1f} to {max(sizes):.1f} KB together" in _page("howto/by-file.md")


def test_what_whole_federations_lose_on_drawn_rows():
    found = {}
    for run in _record("noisy-runs")["runs"]:
        case = run["model"], run["algorithm"], run["drawn at"], run["consensus"]
        whose = "server" if run["algorithm"] == "fedkt" else "federated"
        found.setdefault(case, []).append((run[whose], run[f"{whose}, balanced"]))
    assert all(len(seeds) == 5 for seeds in found.values())
    mean = {case: [fmean(one) for one in zip(*seeds, strict=True)] for case, seeds in found.items()}
    lost = [
        [real - drawn for real, drawn in zip(mean[*case[:2], 0.0, "auto"], mean[case], strict=True)]
        for case in mean
        if case[3] == "auto"
    ]
    plain, balanced = (_short(max(each)) for each in zip(*lost, strict=True))
    page = _page("howto/draw-public-rows.md")
    assert f"Drawn rows cost at most {plain} in accuracy, {balanced} in balanced accuracy." in page
    majority, ratios = (_short(mean["xgboost", "fedkt", 0.5, rule][0]) for rule in ("majority", "density-ratio"))
    assert f"By majority FedKT (XGBoost) has {majority} at 0.5, by density ratios {ratios}." in page


def test_what_noisy_sums_of_two_rounds_cost():
    found, page = _record("noisy-sums"), _page("howto/draw-public-rows.md")
    made = [run for run in found["runs"] if run["data"] == "adult" and run["what"] == "model"]
    runs = [run for run in made if run["epsilon"] == 1.0]
    assert len(runs) == 5
    keys = ("sums alone, balanced", "sums alone, two rounds, balanced")
    once, twice = (_short(fmean(run[key] for run in runs)) for key in keys)
    assert f"On Adult balanced accuracy falls: {once} to {twice} at epsilon 1." in page
    rounds = zip(*found["cost"].values(), strict=True)
    first, second = (f"{fmean(one['bytes up'] for one in each) / 1000:.0f} KB" for each in rounds)
    assert f"a party sends {first}, then {second}, in two seconds each" in page
    assert all(one["seconds"] < 2.6 for each in found["cost"].values() for one in each)


def test_what_an_attack_finds_in_answers_to_drawn_rows():
    members, page = _record("tree-leaks")["members"], _page("howto/draw-public-rows.md")
    answers = ("probabilities, drawn rows", "labels", "probabilities")
    seeds = [members[f"adult, FedKT: {each}"].values() for each in answers]
    assert all(len(runs) == 5 for runs in seeds)
    drawn, labels, real = (_short(fmean(run["auc"][0] for run in runs), 2) for runs in seeds)
    said = f"in FedKT's with AUC {drawn}, in its labels of real rows with {labels}"
    assert f"{said}, in its probabilities of real rows with {real}" in page


def test_what_numbers_reach_at_home():
    cases = {name: case["runs"] for name, case in _record("regression").items() if "at home" in name}
    ratios = [
        fmean(
            one["rmse, federated"] / one["rmse, solo"] for name in cases if name.endswith(deal) for one in cases[name]
        )
        for deal in ("iid", "0.5", "0.1")
    ]
    told = "{:.2f} of alone's RMSE on iid rows, {:.2f} at Dirichlet 0.5, {:.2f} at 0.1".format(*ratios)
    assert told in _page("howto/numbers.md")


def test_what_the_audit_finds_on_images():
    rows = {
        "fedct": "labels",
        "fedct-ratios": "labels, class counts, ratios",
        "dd": "probabilities",
        "fedavg": "weights",
    }
    page, found = _page("evidence/attacks.md"), _record("audit-fashion-mnist")["summary"]
    assert found.keys() == rows.keys()
    for name, one in found.items():
        low, high = (end(seed[i] for seed in one["auc by seed"]) for i, end in ((1, min), (2, max)))
        shares = f"{one['auc']:.3f} ({low:.3f}–{high:.3f}) | {100 * one['found_at_1_percent']:.1f} %"
        assert f" | {rows[name]} | {shares} | " in page
    assert f"without shadow runs sees the same ({found['fedct']['auc without shadows']:.3f})" in page


def _interval(runs):
    """Return the mean AUC of runs, and the ends of its interval."""
    found = [run["auc"] for run in runs.values()]
    mean, wide = fmean(one[0] for one in found), sum(((one[2] - one[1]) / 2) ** 2 for one in found) ** 0.5 / len(found)
    return mean, mean - wide, mean + wide


def test_labels_and_density_ratios_of_parties_that_are_alike_tell_less_of_members_than_trees_and_histograms():
    runs = _record("tree-leaks")["members"]
    found = {key: _interval(some) for key, some in runs.items()}
    labels = [one[0] for key, one in found.items() if key.endswith(": labels")]
    ratios = [one[0] for key, one in found.items() if key.endswith("density ratios")]
    others = ("bagging: trees", "pooled forest: trees", "FedCT, default forests: labels")
    unlike = [[f"adult, {one}{rows}, Dirichlet 0.5" for one in (*_RATIOS, *others)] for rows in ("", ", 1,200 rows")]
    few, many = ([found[key][0] for key in keys] for keys in unlike)
    most = max(few[:2])  # of ratios
    seeds = [min(len(runs[key]) for key in keys) for keys in unlike]
    sizes = [f"{table}, {{}}" for table in ("adult", "cod-rna", "wine")]
    for size in [*sizes, "adult, {}, 1,200 rows", "adult, {}, 4,800 rows"]:
        ours = [found[size.format(one)][2] for one in (*_RATIOS, "FedCT, default forests: labels")]
        assert max(ours) < min(found[size.format(one)][1] for one in ("bagging: trees", "one model of all rows"))
    assert (
        f"tables: {min(labels):.2f} to {max(labels):.2f} and, in [density ratios](../evidence/trees.md#what-an-attacker"
        f"-finds), {min(ratios):.2f} to {max(ratios):.2f} of parties that are alike, up to {most:.2f} of others;"
    ) in _page("understand/privacy.md")
    (forests, boosted, *rest), many = ([_short(one, 2) for one in row] for row in (few, many))
    said = (
        f"At Dirichlet 0.5 forests' ratios have {forests}, XGBoost's {boosted} with 300 rows ({seeds[0]} seeds), "
        f"{many[0]} and {many[1]} with 1,200 ({seeds[1]}); "
    )
    said += ", ".join(f"{name} {' and '.join(two)}" for name, *two in zip(_UNLIKE, rest, many[2:], strict=True))
    assert f"{said}. A silo" in _page("evidence/trees.md")


_UNLIKE = ("bagging", "pooled forests", "labels")
_RATIOS = ("FedCT, default forests: labels, density ratios", "FedCT: labels, density ratios")


def test_even_parties_of_many_rows_are_nearly_as_good_as_federated_histograms():
    found = _record("trees-whole")["found"]
    pooled = [run["pooled"] for run in found["adult, iid, FedKT"].values()]
    below = [
        fmean(one[figure] for one in pooled) - fmean(run[of][figure] for run in found[f"adult, iid, {name}"].values())
        for name, of in (("FedCT", "with common"), ("FedKT", "server"))
        for figure in ("accuracy", "roc_auc")
    ]
    said = "FedCT by {} in accuracy and {} in AUC, FedKT by {} and {} ([runs]"
    assert said.format(*map(_short, below)) in _page("evidence/trees.md")


def test_how_long_many_parties_and_fast_forests_take():
    page = _page("evidence/speed.md")
    few, many = (
        f"{one['parties']:,} parties took {one['seconds']:.0f} s and {one['peak MB']['in all'] / 1000:.2f} GB"
        for one in _record("parties-many")["runs"]
    )
    assert few in page
    assert many.replace(" parties", "") in page
    theirs, ours = _record("fast-forests")["means of"].values()
    cells = f"{ours['seconds']:.1f} beside {theirs['seconds']:.1f} | {ours['accuracy']:.4f} beside "
    assert f"{cells}{theirs['accuracy']:.4f} | {ours['times as fast']:.1f}" in page


def test_what_other_peoples_tables_gain_and_lose():
    record, page = _record("others"), _page("evidence/votes.md")
    runs = [run for one in record["found"] for run in one["runs"]]
    kinds = ("home alone", "home with", "alone", "with", "pooled", "with, balanced", "pooled, balanced")
    means = {kind: _short(fmean(run[kind] for run in runs)) for kind in kinds}
    tables = len({one["table"] for one in record["found"]})
    assert f"{tables} public tables, default settings, five seeds, 3 and 10 parties ([{len(runs)} runs]" in page
    assert {len(one["runs"]) for one in record["found"]} == {5}
    assert f"at home {means['home alone']} and {means['home with']}, on common rows {means['alone']} and " in page
    lose, parties = (sum(run[key] for run in runs) for key in ("lose clearly", "parties"))
    assert f"{means['with']}, pooled {means['pooled']}. Of {parties:,} parties none loses clearly" in page
    assert lose == 0
    of_cases = [
        {key: fmean(run[key] for run in one["runs"]) for key in ("commonest", "with", "pooled")}
        for one in record["found"]
    ]
    below, of, most = _below(of_cases)
    runs_below = _below(runs)
    single = f"single runs are in {runs_below[0]} of {runs_below[1]}, by {_short(runs_below[2])} at most"
    assert f"below it in {below} of {of}, by {f'{most:.4f}'.lstrip('0')} at most; {single}." in page
    even = [run["with, balanced, even shares"] for run in runs]
    assert f"Balanced accuracy is {means['with, balanced']}, of pooled models {means['pooled, balanced']}" in page
    assert f"models reach {_short(fmean(even))}" in page


def _below(runs):
    """Return how often a federation is below the commonest class where pooled is not, of how many, and the most."""
    reached = [run for run in runs if run["pooled"] >= run["commonest"]]
    gaps = [run["commonest"] - run["with"] for run in reached if run["with"] < run["commonest"] - 1e-9]
    return len(gaps), len(reached), max(gaps, default=0.0)


def test_how_many_parties_of_home_rows_lose():
    found, page = _record("home")["found"], _page("understand/class-shares.md")
    cells = [[run["home"] for run in seeds.values() if "home" in run] for seeds in found.values()]
    gains = [fmean(b - a for run in runs for a, b in run.values()) for runs in cells]
    pairs = [pair for runs in cells for run in runs for pair in run.values()]
    clearly = [sum(b < a - 0.05 for run in runs for a, b in run.values()) / sum(map(len, runs)) for runs in cells]
    assert f"at or above alone in {sum(gain >= 0 for gain in gains)} of {len(gains)} cells" in page
    assert f"by more than .05 lose {sum(b < a - 0.05 for a, b in pairs)} of {len(pairs):,} parties" in page
    assert max(clearly) <= 0.1
    first = [run["home"] for seed, run in found["adult, 0.5, 5"].items() if int(seed) <= 815]
    gains = [fmean(after - alone for alone, after in home.values()) for home in first]
    stood = f"{fmean(gains):.3f}".replace("0.", ".")
    assert f"by 815 it stood at {stood} ± {_short(stdev(gains) / len(gains) ** 0.5)})" in page


COSTLIEST = ("a9a, 0.1",)


def test_what_liars_cost():
    found, page = _record("liars")["found"].values(), _page("evidence/votes.md")
    each, known = ("flip", "target", "all but one", "most", "random"), ("fedkt", "fedct", "density-ratio")

    def lost(lies, rules, of, less):
        """Return by how much less is right under each lie and rule, run by run."""
        pairs = [(lie, rule) for lie in lies for rule in rules]
        return [[of(run, lie)[r] - run[lie][r][less] for run in seeds.values()] for seeds in found for lie, r in pairs]

    def honest(run, lie):
        return {rule: one["right auto"] for rule, one in run["none"].items()}

    seven = {
        (case, lie): fmean(
            run[lie]["density-ratio"]["right seven"] - run[lie]["density-ratio"]["right auto"] for run in s
        )
        for case, s in ((case, seeds.values()) for case, seeds in _record("liars")["found"].items())
        for lie in (*each, "together", "scattered")
    }
    alone = max(lost for (_, lie), lost in seven.items() if lie in each)
    assert f"density ratios come within {_short(alone)} of a vote that knew the liars" in page
    agreed = {key: lost for key, lost in seven.items() if key[1] not in each}
    most = [_short(max(agreed.pop((case, lie)) for lie in ("together", "scattered"))) for case in COSTLIEST]
    costs = "{} on Adult at Dirichlet 0.1, else {} at most"
    assert costs.format(*most, _short(max(agreed.values()))) in page
    kinds = {k: {what: one["mean"] for what, one in v.items()} for k, v in _record("ratio-trust")["kinds"].items()}
    kinds = [
        of
        for kind, of in kinds.items()
        # of more than two classes, and rows from the parties' domain
        if not kind.startswith(("a9a", "cod-rna", "fraud", "wine-type")) and of["liars known"] > 0.2
    ]
    assert f"On [{len(kinds)} more kinds of federations]" in page
    right = ("today, together", "today, scattered", "no heads, together", "no heads, scattered", "liars known")
    more = "{} is right if three lie *together* and {} if *scattered*. If contradicted parties keep their votes it is "
    more += "{} and {}, with a vote that knew the liars {}."
    assert more.format(*(_short(fmean(of[what] for of in kinds)) for what in right)) in page
    fraud = _record("ratio-trust")["kinds"]["fraud_0.1"]["today, together"]["mean"]
    assert f"One liar of five leaves {_short(fraud)} right on fraud-like rows" in _page("understand/liars.md")
    changed = _record("ratio-trust")["honest"]["no heads"]
    assert (changed["changed"], f"changes none of {changed['federations']} federations" in page) == (0, True)
    by_known = lost((*each, "together", "scattered"), [f"{rule} known-rows" for rule in known], honest, "right auto")
    assert f"no rule loses more than {_short(max(map(fmean, by_known)))} on average, " in page
    assert f"{_short(max(map(max, by_known)))} in the worst single run" in page
    cost = f"cost at most {_short(max(map(fmean, by_known)))} on average over five seeds"
    assert cost in _page("understand/known-rows.md")
    cost = [
        max(fmean(o["none"][rule]["right none"] - o["none"][rule]["right auto"] for o in s.values()) for s in found)
        for rule in ("density-ratio", "fedct majority", "fedkt majority")
    ]
    assert f"at most {_short(cost[0])} with density ratios, {_short(max(cost[1:]))} with labels alone" in page
