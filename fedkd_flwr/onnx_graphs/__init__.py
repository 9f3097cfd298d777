"""Models as ONNX: graphs that take raw columns and answer with class names and probabilities, anywhere.

The libraries are imported on use (extra ``onnx``). torch.onnx converts nets, skl2onnx estimators of scikit-learn. Trees
and boosting are written here, operation by operation in the order and the precision in which the library itself adds,
because a vote of trees has exact ties, which skl2onnx's single precision breaks otherwise: a forest on digits has
another label in 5 of 9,797 rows.
"""

from fedkd_flwr.onnx_graphs.encoder import expected_cells
from fedkd_flwr.onnx_graphs.export import check_onnx, onnx_inputs, to_onnx

__all__ = ["check_onnx", "expected_cells", "onnx_inputs", "to_onnx"]
