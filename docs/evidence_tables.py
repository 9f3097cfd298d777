"""Tables from the figures on record: votes, liars, what an audit proves, noisy sums, and class shares."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import Any

from fedkd_flwr.privacy.rounding import bound_text, least_text

__all__ = ["claim_table", "error_tables", "liar_rows", "liar_table", "share_table", "soft_table", "sum_tables"]
__all__ += ["home_table", "uneven_table", "vote_rows", "vote_table", "whole_run_table"]

_FEDERATIONS = (
    ("digits, iid", "density-votes", "digits:iid:forest300"),
    ("digits, 0.5", "density-votes", "digits:0.5:forest300"),
    ("digits, 0.1", "density-votes", "digits:0.1:forest300"),
    ("Adult (a9a), 0.5", "density-votes", "a9a:0.5:shallow"),
    ("Adult (a9a), 0.1", "density-votes-bytes", "a9a:0.1:shallow"),
    ("cod-rna, 0.5", "density-votes", "cod-rna:0.5:shallow"),
    ("synthetic, 5 classes, iid", "density-votes-bytes", "made5:iid"),
    ("synthetic, 5 classes, 0.1", "density-votes", "made5:0.1"),
    ("synthetic, 6 imbalanced classes, 0.1", "density-votes", "made6i:0.1"),
    ("EMNIST letters (50 columns), 26 classes, 0.5", "density-votes-bytes", "emnist-letters:0.5"),
    ("synthetic fraud 1 : 200, 0.1, 5 parties", "density-votes-fraud", "fraud:0.1"),
    ("wine type, 0.5", "density-votes-bytes", "wine-type:0.5"),
    ("MNIST, 0.1, public rows: scikit-learn's digits", "density-votes-elsewhere", "mnist:0.1:forest:digits"),
    ("MNIST, 0.5, public rows: scikit-learn's digits", "density-votes-elsewhere", "mnist:0.5:forest:digits"),
    ("MNIST, iid, public rows: scikit-learn's digits", "density-votes-elsewhere", "mnist:iid:forest:digits"),
)
_RULES = ("majority", "dawid-skene", "density-ratio")
_OF_A_RECORD, _AT_THE_SERVER = ("FedKT L2", "FedMD, NFDP"), ("FedKT L1, counts", "PATE")
_OWN_LIES = ("flip", "target", "all but one", "most", "random")


def _found(root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text())["found"]
    return found


def vote_rows(root: Path) -> list[tuple[str, dict[str, Any], str]]:
    """Return for each kind of federation: its name, means over its seeds by rule and key, and what `auto` takes."""
    rows = []
    for name, file, case in _FEDERATIONS:
        seeds = list(_found(root, file)[case].values())
        means: dict[str, Any] = {"seeds": len(seeds)}
        for rule in (*_RULES, "unbounded sum"):
            means[rule] = [statistics.fmean(one[rule][i] for one in seeds) for i in range(2)]
        (auto,) = {one["auto"] for one in seeds}
        rows.append((name, means, auto))
    return rows


def vote_table(root: Path) -> str:
    """Return the share of public rows that each rule labels right, and balanced accuracy in brackets."""
    lines = ["| parties' data, Dirichlet alpha | seeds | majority | Dawid-Skene | density ratio | auto |"]
    lines.append("|---" * 6 + "|")
    for name, means, auto in vote_rows(root):
        cells = [f"{means[rule][0]:.3f}/{means[rule][1]:.3f}".replace("0.", ".") for rule in _RULES]
        lines.append(f"| {name} | {means['seeds']} | {' | '.join(cells)} | {auto} |")
    return "\n".join(lines)


def liar_rows(root: Path) -> list[tuple[str, dict[str, dict[str, float]], dict[str, float]]]:
    """Return for each federation: mean share right by rule and lie, and of the seven honest parties alone by rule."""
    rows = []
    for case, by_seed in _found(root, "liars").items():
        seeds = list(by_seed.values())
        right: dict[str, dict[str, float]] = {}
        for lie, rules in seeds[0].items():
            for rule in (rule for rule, figures in rules.items() if isinstance(figures, dict)):
                right.setdefault(rule, {})[lie] = statistics.fmean(one[lie][rule]["right auto"] for one in seeds)
        seven = {
            rule: statistics.fmean(one["none"][rule]["right seven"] for one in seeds)
            for rule, figures in seeds[0]["none"].items()
            if isinstance(figures, dict) and "right seven" in figures
        }
        rows.append((case.replace("a9a", "Adult"), right, seven))
    return rows


def liar_table(root: Path) -> str:
    """Return what three liars of ten cost, as a loss of the share of public rows that is labelled right."""
    columns = (
        ("ratios, each for itself", "density-ratio", _OWN_LIES),
        ("ratios, *together*", "density-ratio", ("together",)),
        ("ratios, *scattered*", "density-ratio", ("scattered",)),
        ("FedKT majority, worst", "fedkt majority", (*_OWN_LIES, "together", "scattered")),
        ("FedCT majority, worst", "fedct majority", (*_OWN_LIES, "together", "scattered")),
        ("ratios with known rows, worst", "density-ratio known-rows", (*_OWN_LIES, "together", "scattered")),
    )
    lines = ["| data, skew | ratios, nobody lies | three stay away | " + " | ".join(c[0] for c in columns) + " |"]
    lines.append("|---" * (3 + len(columns)) + "|")
    for case, right, seven in liar_rows(root):
        honest = right["density-ratio"]["none"]
        cells = [f"{honest:.3f}", f"{max(honest - seven['density-ratio'], 0):.2f}"]
        for _, rule, lies in columns:
            cells.append(f"{max(right[rule]['none'] - min(right[rule][lie] for lie in lies), 0):.2f}")
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def claim_table(root: Path) -> str:
    """Return each claim beside what an attack proves: claims rounded up, what is proven down."""
    levels = json.loads((root / "benchmarks" / "results" / "audit-claims.json").read_text())["levels"]
    head = ["level", "protects", "against", "claimed epsilon", "delta", "proven, all runs", "proven, most of one run"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    runs = sum(one["runs"] for one in levels)
    above = sum(one["runs above the claim"] for one in levels)
    for one in levels:
        unit = "one record" if one["level"] in _OF_A_RECORD else "a party"
        against = "who sees the result" if one["level"] in _AT_THE_SERVER else "the server"
        proven = [one["proven, all runs together"], max(one["proven, by run"])]
        cells = [bound_text(one["claimed"], 3), f"{one['delta']:g}", *(least_text(value, 3) for value in proven)]
        lines.append("| " + " | ".join([one["level"], unit, against, *cells]) + " |")
    lines += ["", f"Runs above the claim: {above} of {runs}."]
    return "\n".join(lines)


_EPSILONS = (1.0, 2.0)
_FEWEST = 3  # seeds that a row of the tables below rests on
_DATA = {"adult": "Adult", "cod-rna": "cod-rna", "mushroom": "Mushroom", "rare": "5 % rare", "wine-type": "wine"}
_DATA |= {"digits": "digits", "fashion-mnist": "Fashion-MNIST"}
_COMMON = ("accuracy", "roc_auc", "log_loss")
_KINDS = {"random-forest": "forests", "xgboost": "XGBoost", "mlp": "nets"}


def _spread(values: list[float]) -> str:
    """Return a mean ± the standard deviation over seeds."""
    return f"{statistics.fmean(values):.3f}±{statistics.stdev(values):.3f}".removeprefix("0").replace("±0.", "±.")


def sum_tables(root: Path) -> str:
    """Return how accurate noisy sums are, and models that votes on drawn public rows taught, beside real ones."""
    runs = json.loads((root / "benchmarks" / "results" / "noisy-sums.json").read_text())["runs"]
    head = [f"epsilon {epsilon:g}, {rounds}" for epsilon in _EPSILONS for rounds in ("one round", "two")]
    lines = [f"| noisy sums: accuracy | commonest class | {' | '.join(head)} |", "|---" * 6 + "|"]
    for data in dict.fromkeys(run["data"] for run in runs):
        here = [run for run in runs if run["data"] == data]
        common = f"{statistics.fmean(run['commonest class'] for run in here if run['what'] == 'model'):.3f}"[1:]
        for key, words in (("sums alone", "sums alone"), ("with public rows", "2,000 public rows")):
            made = [[run for run in here if run["what"] == "model" and run["epsilon"] == e] for e in _EPSILONS]
            cells = [_spread([run[name] for run in at]) for at in made for name in (key, f"{key}, two rounds")]
            lines.append(f"| {_DATA[data]}, {words} | {common} | {' | '.join(cells)} |")
        for queries in {run["queries"] for run in here if run["what"] == "l2"} & {1000}:
            other = [run for run in here if run["what"] == "l2" and run["queries"] == queries]
            cells = [_spread([run["final model"] for run in other if run["epsilon"] == e]) for e in _EPSILONS]
            lines.append(f"| {_DATA[data]}, FedKT L2, {queries:,} queries | {common} | {cells[0]} | | {cells[1]} | |")
    lines += [
        "",
        "| votes on 2,000 public rows: accuracy | real rows | drawn at epsilon 0.5 | at 1 |",
        "|---|---|---|---|",
    ]
    voted = [run for run in runs if run["what"] == "rows" and run["data"] != "adult"]  # see `whole_run_table`
    for data, model in dict.fromkeys((run["data"], run["model"]) for run in voted):
        here = [run for run in voted if (run["data"], run["model"]) == (data, model)]
        for whose in ("server", "parties"):
            cells = [_spread([run[whose] for run in here if run["drawn at"] == at]) for at in (0.0, 0.5, 1.0)]
            lines.append(f"| {_DATA[data]}, {_KINDS[model]}, {whose} | {' | '.join(cells)} |")
    return "\n".join(lines)


def whole_run_table(root: Path) -> str:
    """Return how good whole federations' models are by default on real public rows of Adult, and on drawn ones."""
    runs = json.loads((root / "benchmarks" / "results" / "noisy-runs.json").read_text())["runs"]
    runs = [run for run in runs if run["consensus"] == "auto"]
    lines = ["| Adult: accuracy, balanced | real rows | drawn at epsilon 0.5 | at 1 |", "|---|---|---|---|"]
    for algorithm, model in dict.fromkeys((run["algorithm"], run["model"]) for run in runs):
        here = [run for run in runs if (run["algorithm"], run["model"]) == (algorithm, model)]
        whose, cells = "server" if algorithm == "fedkt" else "federated", []
        for at in (0.0, 0.5, 1.0):
            of = [[run[key] for run in here if run["drawn at"] == at] for key in (whose, f"{whose}, balanced")]
            cells.append(", ".join(map(_spread, of)) if of[0] else "-")
        name = {"fedkt": "FedKT, server", "fedct": "FedCT, parties"}[algorithm]
        lines.append(f"| {name}, {_KINDS[model]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share_table(root: Path) -> str:
    """Return who lost at home by joining before models answered for class shares, and who loses now."""
    kept = json.loads((root / "benchmarks" / "results" / "priors.json").read_text())
    before, now = kept["before"]["found"], kept["now"]["found"]
    head = ["home: alone", "before", "now", "lose: before", "now", "common: before", "now"]
    lines = ["", "|---" * (1 + len(head)) + "|"]
    for case in now:
        seeds = sorted(set(before.get(case, {})) & set(now[case]))
        pairs = [(before[case][seed], now[case][seed]) for seed in seeds]
        if len(seeds) < _FEWEST or any("failed" in one for pair in pairs for one in pair):
            continue
        table, algorithm, model, parties, alpha = case.split(", ")
        lines[0] = f"| federation, {len(seeds)} seeds | {' | '.join(head)} |"
        cells = [_spread([one["home alone"] for _, one in pairs])]
        cells += [_spread([pair[i]["home with"] for pair in pairs]) for i in range(2)]
        total = sum(one["parties"] for _, one in pairs)
        cells += [f"{sum(pair[i]['lose'] for pair in pairs)}/{total}" for i in range(2)]
        for i in range(2):
            means = [statistics.fmean(pair[i][f"common {key}"] for pair in pairs) for key in _COMMON]
            cells.append("/".join(f"{mean:.3f}"[1:] for mean in means))
        names = {"fedkt": "FedKT", "fedct": "FedCT"}
        name = f"{_DATA[table]}, {names[algorithm]}, {_KINDS[model]}, {parties} parties, Dirichlet {alpha}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def home_table(root: Path) -> str:
    """Return the accuracy on parties' own rows, alone and with the federation, and how many parties lose."""
    found = json.loads((root / "benchmarks" / "results" / "home.json").read_text())["found"]
    names = {"adult": "Adult", "digits": "digits", "fashion-mnist": "Fashion-MNIST", "telco": "telco"}
    lines = ["| data, parties | Dirichlet .1 | .5 | 1 |", "|---" * 4 + "|"]
    for table, parties in itertools.product(names, (5, 10)):
        cells = []
        for alpha in ("0.1", "0.5", "1"):
            runs = [run["home"] for run in found[f"{table}, {alpha}, {parties}"].values() if "home" in run]
            alone, after = (statistics.fmean(pair[i] for run in runs for pair in run.values()) for i in (0, 1))
            pairs = [pair for run in runs for pair in run.values()]
            cells.append(f"{alone:.3f} {after:.3f}, {sum(a > b for a, b in pairs)}/{len(pairs)}".replace("0.", "."))
        lines.append(f"| {names[table]}, {parties} | {' | '.join(cells)} |")
    return "\n".join(lines)


def soft_table(root: Path, name: str = "soft-targets") -> str:
    """Return what models are worth that learnt from labels, and from probabilities."""
    kept = json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text())["found"]
    seeds_of = {case: sorted(set.intersection(*map(set, by_send.values()))) for case, by_send in kept.items()}
    most = max(map(len, seeds_of.values()))
    head = f"| federation, {most} seeds or (n) | sent | accuracy | ROC AUC | log loss | KB up |"
    lines = [head, "|---" * 6 + "|"]
    for case, by_send in kept.items():
        seeds = seeds_of[case]
        if len(seeds) < _FEWEST or len(by_send) < 2:
            continue
        name = _federation(case) + (f" ({len(seeds)})" if len(seeds) < most else "")
        for send, found in by_send.items():
            runs = [found[seed] for seed in seeds]
            cells = [_spread([run[key] for run in runs]) for key in _COMMON]
            kilobytes = f"{statistics.fmean(run['bytes up'] for run in runs) / 1000:.1f}"
            lines.append(f"| {name} | {send} | {' | '.join([*cells, kilobytes])} |")
    return "\n".join(lines)


def uneven_table(root: Path) -> str:
    """Return how far every seed of uneven federations of Adult is below the pooled model."""
    kept = json.loads((root / "benchmarks" / "results" / "soft-targets-uneven.json").read_text())["found"]
    lines = [
        "| federation, ten seeds | sent | accuracy | lowest | most below pooled |",
        "|---" * 5 + "|",
    ]
    for case, by_send in kept.items():
        for send, found in by_send.items():
            runs = list(found.values())
            below = max(run["pooled accuracy"] - run["accuracy"] for run in runs)
            assert len(runs) == 10  # noqa: S101  # the head of the table says so
            cells = [_spread([run["accuracy"] for run in runs])]
            cells += [f"{min(run['accuracy'] for run in runs):.3f}"[1:], f"{below:.3f}"[1:]]
            lines.append(f"| {_federation(case)} | {send} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _federation(case: str) -> str:
    """Return a federation of `soft_table` in words."""
    table, algorithm, model, deal = case.split(", ")
    names = {"fedkt": "FedKT", "fedct": "FedCT"}
    return f"{_DATA[table]}, {names[algorithm]}, {_KINDS[model]}, {deal if deal == 'iid' else f'Dirichlet {deal}'}"


def error_tables(root: Path) -> str:
    """Return how far numbers and grades are from the truth: alone, with the federation, and of all rows pooled."""
    found = json.loads((root / "benchmarks" / "results" / "regression.json").read_text())
    whose = ("solo", "federated", "server", "centralised", "exact")
    head = ["RMSE", "rows", "alone", "with the federation", "server's model", "pooled", "pooled, exact"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, case in found.items():
        if "grades" not in name and "at home" not in name:
            cells = [_errors([run[f"rmse, {one}"] for run in case["runs"]]) for one in whose]
            lines.append(f"| {name} | {case['rows']:,} | {' | '.join(cells)} |")
    lines += ["", "| MAE of wine's grades | alone | with the federation | server's model |", "|---|---|---|---|"]
    for name, case in found.items():
        if "grades" in name:
            cells = [_errors([run[f"mae, {one}"] for run in case["runs"]]) for one in whose[:3]]
            lines.append(f"| {name.removeprefix('wine grades ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _errors(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3g}±{statistics.stdev(values):.2g}"
