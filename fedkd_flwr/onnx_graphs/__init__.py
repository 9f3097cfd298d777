"""Models as ONNX: graphs that take raw columns and answer with class names and probabilities, anywhere.

The libraries are imported on use (extra ``onnx``). Models of scikit-learn and XGBoost are written here, operation by
operation in the order and the precision in which the library itself computes, because a vote of trees has exact ties,
which the usual converters' single precision breaks otherwise. torch.onnx converts nets, skl2onnx users' own estimators.
"""

from fedkd_flwr.onnx_graphs.encoder import expected_cells
from fedkd_flwr.onnx_graphs.export import check_onnx, onnx_inputs, to_onnx

__all__ = ["check_onnx", "expected_cells", "onnx_inputs", "to_onnx"]
