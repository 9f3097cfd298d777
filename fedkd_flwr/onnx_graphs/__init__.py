"""Models as ONNX: graphs that take raw columns and answer with class names and probabilities, anywhere.

The libraries are imported on use (extra ``onnx``). torch.onnx converts nets, skl2onnx estimators of scikit-learn, and
onnxmltools XGBoost (no other label in 18,797 rows of digits and breast cancer). Trees and forests are written here, in
the order and precision in which scikit-learn adds: skl2onnx breaks ties otherwise, of extra trees in 17 of 21,093 rows.
"""

from fedkd_flwr.onnx_graphs.export import check_onnx, expected_cells, onnx_inputs, to_onnx

__all__ = ["check_onnx", "expected_cells", "onnx_inputs", "to_onnx"]
