"""A run record as a table, as pictures and as a page. matplotlib is imported only when a picture is drawn."""

from fedkd_flwr.report.canvas import Plot
from fedkd_flwr.report.page import write_page
from fedkd_flwr.report.run_plots import accuracy_plot, rounds_plot
from fedkd_flwr.report.table import summary_table

__all__ = ["Plot", "accuracy_plot", "rounds_plot", "summary_table", "write_page"]
