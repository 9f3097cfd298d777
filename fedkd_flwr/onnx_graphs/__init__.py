"""Models as ONNX: graphs that take raw columns and answer with class names and probabilities, anywhere.

The libraries are imported on use (extra ``onnx``). torch.onnx converts nets, skl2onnx estimators of scikit-learn, and
onnxmltools XGBoost (no other label in 18,797 rows of digits and breast cancer). Trees and forests are written here, in
the order and precision in which scikit-learn adds: a vote of trees has exact ties, which skl2onnx's single precision
breaks otherwise, for a forest on digits in 5 of 9,797 rows. So is histogram boosting, on which skl2onnx 1.20 can fail.
"""

from fedkd_flwr.onnx_graphs.encoder import expected_cells
from fedkd_flwr.onnx_graphs.export import check_onnx, onnx_inputs, to_onnx

__all__ = ["check_onnx", "expected_cells", "onnx_inputs", "to_onnx"]
