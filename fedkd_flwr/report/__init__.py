"""The run record as a table, as pictures and as a page; matplotlib is imported only where a picture is drawn."""

from fedkd_flwr.report.page import write_page
from fedkd_flwr.report.plots import Plot, accuracy_plot, bytes_plot, rounds_plot
from fedkd_flwr.report.table import summary_table

__all__ = ["Plot", "accuracy_plot", "bytes_plot", "rounds_plot", "summary_table", "write_page"]
