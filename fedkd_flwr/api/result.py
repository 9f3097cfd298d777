"""What a simulated federation left: figures as tables, pictures, and models that answer for raw rows."""

from __future__ import annotations

import base64
import dataclasses
import html
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkd_flwr.api.rows import table_of
from fedkd_flwr.checks import split_words
from fedkd_flwr.data.columns import short_list
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.files import write_atomic
from fedkd_flwr.models import given
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.saved_model import SavedModel, unpack

__all__ = ["FederationResult"]

_SKIPPED = ("agreement", "labelled share", "final result")
_STYLE = "border-collapse:collapse;text-align:left"
_PICTURE = "max-width:46em;width:100%;background:white"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FederationResult:
    """What `fedkd_flwr.simulate` returns. It can be pickled.

    Parameters
    ----------
    record : RunRecord
        Everything that was measured.
    model_bytes : dict of str to bytes
        The models by party; "" is the server's.
    values : dict
        By each class's name, what the user's label column holds.
    """

    record: RunRecord
    model_bytes: dict[str, bytes]
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_opened", {})

    # ------------------------------------------------------------------------------------------------- figures

    @property
    def parties(self) -> pd.DataFrame:
        """A row for each party, by name: its model, its rows of each class, and what its models reach.

        ``solo`` is its model alone, ``federated`` with the federation; ``common`` are the test rows of all parties,
        ``own`` those that it kept. `models` has all other figures.
        """
        classes = {f"rows_of_class_{i}": f"rows_of_{name}" for i, name in enumerate(self.record.classes)}
        table = self._frame("parties").rename(columns=classes).set_index("name").drop(columns="model_bytes")
        kept = [n for n in map(str, table) if not n.startswith(("solo_", "federated_")) or n.endswith("accuracy")]
        return table[kept]

    @property
    def rounds(self) -> pd.DataFrame:
        """A row for each round, by number: agreement, bytes, seconds."""
        return self._frame("rounds").set_index("server_round")

    @property
    def models(self) -> pd.DataFrame:
        """A row for each model and kind of test rows, with all its figures.

        ``whose`` it is: of a party ``solo`` (alone) or ``federated``, of the ``server``, or ``centralised`` (trained on
        all rows pooled). ``rows`` are ``common`` test rows or a party's ``own``.
        """
        return self._frame("models")

    def _frame(self, of: str) -> pd.DataFrame:
        return self._plain().to_frame(of).drop(columns=["run_id", "seed"], errors="ignore")

    def _plain(self) -> RunRecord:
        """Return the record with the names of given models as people know them."""
        parties = [dataclasses.replace(party, model=given.shown(party.model)) for party in self.record.parties]
        pooled = given.shown(self.record.centralised_model)
        return dataclasses.replace(self.record, parties=parties, centralised_model=pooled)

    @property
    def claims(self) -> pd.DataFrame:
        """A row for each proven bound on what the run gives away; none where no noise was added."""
        from fedkd_flwr.report.claims import claim_cells, ordered

        return pd.DataFrame([claim_cells(claim) for claim in ordered(self.record.claims)])

    @property
    def notes(self) -> list[str]:
        """What was found in files, warnings and notes, a sentence or two each, as the command prints them."""
        from fedkd_flwr.report.table import notes, warnings

        record, said = self._plain(), {"": "", str(self.record.config.get("label")): "label: "}
        read = [one for one in record.columns if one.name in said and (not one.name or one.missing)]
        return [said[one.name] + one.note for one in read] + [text for _, text in (*warnings(record), *notes(record))]

    def save_page(self, path: str | os.PathLike[str]) -> Path:
        """Write the whole report as one HTML file, and return its path."""
        from fedkd_flwr.report.page import write_page

        return write_page(self._plain(), Path(path))

    # ------------------------------------------------------------------------------------------------- answers

    @property
    def classes(self) -> list[Any]:
        """The classes, as the user's label column holds them; of a number its bins."""
        return [self.values.get(name, name) for name in self.record.classes]

    def model(self, party: str | None = None) -> SavedModel:
        """Return one model, which is a classifier of scikit-learn: the server's, or a party's.

        Raises
        ------
        DataError
            If the run left no such model; the message names those that it left.
        """
        name = party or ""
        if name not in self.model_bytes:
            known = ", ".join(one or "the server's (None)" for one in self.model_bytes) or "none"
            rule = f"name a model that {self.record.algorithm} left: {known}"
            who = "the server's model answers" if "" in self.model_bytes else "predict asks all of them together"
            raise DataError(explain("party", rule, party, f"Without party= {who}."))
        opened: dict[str, SavedModel] = self._opened  # type: ignore[attr-defined]
        if name not in opened:
            opened[name] = unpack(self.model_bytes[name], trust=True, values=tuple(self.classes))
        return opened[name]

    def save(self, path: str | os.PathLike[str], party: str | None = None) -> Path:
        """Write one model, as `model` takes it, to a file; read by `fedkd_flwr.load` it answers with class names."""
        self.model(party)
        if (path := Path(path)).is_dir() or not path.parent.is_dir():
            seen = f"the folder {path}" if path.is_dir() else f"no folder {path.parent}"
            raise DataError(explain("path", "be a file in a folder that is there", seen, "Such as model.fedkd."))
        return write_atomic(path, self.model_bytes[party or ""])

    def predict(self, data: Any, party: str | None = None, class_shares: Any = None) -> pd.Series[Any]:
        """Return the class, grade or number of each raw row, as the label column held it, under the index of the rows.

        Parameters
        ----------
        data : DataFrame or array of shape (n, columns)
            Rows with the columns that the models learnt from; others are ignored.
        party : str, optional
            Whose model answers. By default the server's. Where the algorithm leaves it none, the probabilities of all
            parties' models are averaged.
        class_shares : str or dict, optional
            How common each class is among these rows: ``{"ill": 0.1, "well": 0.9}``, ``"own"`` (the party's: default
            of its model), ``"common"`` (all parties', as on common test rows) or ``"taught"`` (else the default).

        Raises
        ------
        DataError
            If columns are missing, a value is no number where numbers are wanted, or there is no such model or share.
        """
        models, table = self._asked(party, class_shares), table_of(data)
        answers = models[0].predict(table) if len(models) == 1 else models[0].answers(_mean(models, table))
        label = str(self.record.config.get("label") or "prediction")
        return pd.Series(answers, index=_index(data, table), name=label)

    def predict_proba(self, data: Any, party: str | None = None, class_shares: Any = None) -> pd.DataFrame:
        """Return the probability of each class for each raw row; parameters as of `predict`."""
        models, table = self._asked(party, class_shares), table_of(data)
        return pd.DataFrame(_mean(models, table), index=_index(data, table), columns=self.classes)

    def _asked(self, party: str | None, class_shares: Any) -> list[SavedModel]:
        everybody = self.model_bytes if party is None and "" not in self.model_bytes else ()
        models = [self.model(name) for name in everybody or (party,)]
        return models if class_shares is None else [one.for_shares(class_shares) for one in models]

    # ------------------------------------------------------------------------------------------------- pictures

    def _lines(self) -> list[tuple[str, str]]:
        """Return the key figures: what each is, and its value in words."""
        from fedkd_flwr.report.page import boxes

        shown = dataclasses.replace(self._plain(), server_model="")  # no path of this machine
        lines = []
        for one in (box for box in boxes(shown) if box.label not in _SKIPPED):
            label = f"{one.group}: {one.label}" if one.group else one.label
            mark = " " if one.note.startswith("(") else ", " if one.note else ""
            lines.append((label, f"{one.value}{mark}{one.note}"))
        config = self.record.config
        held_out = config.get("dataset") == "table" and not config.get("public-rows")
        whence = " (held out of your rows; public= gives others)" if held_out else ""
        return [*lines, ("public rows", f"{self.record.num_public:,}{whence}")]

    def _table(self) -> pd.DataFrame:
        """Return the table of the parties, as people read it."""
        from fedkd_flwr.report import results

        record = self._plain()
        rows = results.rows_used(record)
        figure = results.figure_used(record, rows)
        table = pd.DataFrame(index=pd.Index([one.name for one in record.parties], name="party"))
        table["model"] = [one.model for one in record.parties]
        table["rows"] = [sum(one.class_counts) for one in record.parties]
        for name, whose in (("alone", "solo"), ("with the federation", "federated")):
            table[name] = [results.known(getattr(one, whose), rows, figure) for one in record.parties]
        return table

    def __repr__(self) -> str:
        from fedkd_flwr.report.page import headline

        lines = self._lines()
        width = max(len(label) for label, _ in lines)
        names = short_list([name or "the server's" for name in self.model_bytes], 6) or "none kept"
        told = [f"{label:<{width}}  {value}" for label, value in [*lines, ("models", names)]]
        more = f"\nnotes  {len(self.notes)}: see .notes" if self.notes else ""
        return "\n".join([f"{self.record.algorithm}: {headline(self.record)}", *told]) + more

    def _repr_html_(self) -> str:
        from fedkd_flwr.report.html import drawn
        from fedkd_flwr.report.page import headline
        from fedkd_flwr.report.run_plots import accuracy_plot, own_rows_plot, rounds_plot

        plots, missing = drawn((accuracy_plot, rounds_plot, own_rows_plot), self.record)
        cells = "".join(
            f'<tr><th style="white-space:nowrap">{html.escape(label)}</th><td>{html.escape(value)}</td></tr>'
            for label, value in self._lines()
        )
        parts = [
            f"<p><b>{html.escape(f'{self.record.algorithm}: {headline(self.record)}')}</b></p>",
            f'<table style="{_STYLE}">{cells}</table>',
            self._table().to_html(float_format="{:.3f}".format, na_rep="–", border=0),
            *(f"<p>{html.escape(text)}</p>" for text in self.notes),
            *(_picture(one.svg, one.title, one.caption) for one in [p for p in plots if p.svg][:2]),
            f"<p>{html.escape(missing)}</p>" if missing else "",
        ]
        return f"<div>{''.join(parts)}</div>"

    def __getstate__(self) -> dict[str, Any]:
        specs = split_words(str(self.record.config.get("model", "")).removeprefix("mixed:"))
        own = {one: given.given_model(one) for one in specs if given.is_given(one)}
        own = {name: model for name, model in own.items() if hasattr(model, "forward") or isinstance(model, type)}
        kept = {name: value for name, value in self.__dict__.items() if name != "_opened"}
        return {**kept, "given": own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for model in state.pop("given").values():
            given.name_of(model)  # a torch module's weights are read into what makes the module
        self.__dict__.update(state, _opened={})


def _mean(models: list[SavedModel], table: pd.DataFrame) -> Any:
    return np.mean([model.predict_proba(table) for model in models], axis=0)


def _index(data: Any, table: pd.DataFrame) -> pd.Index[Any]:
    return data.index if isinstance(data, pd.DataFrame) else table.index


def _picture(svg: str, title: str, caption: str) -> str:
    drawn, words = base64.b64encode(svg.encode()).decode(), [html.escape(text) for text in (title, caption)]
    return f'<p>{words[0]}</p><img style="{_PICTURE}" alt="{words[1]}" src="data:image/svg+xml;base64,{drawn}">'
