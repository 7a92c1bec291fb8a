"""Conversion to ONNX by skl2onnx, alone and in pipelines: call :func:`register` once, then ``skl2onnx.to_onnx``.

Classes that replace scikit-learn's are converted by skl2onnx's own converters, so that the graph is the one it makes of
scikit-learn's class. Models and machines that scikit-learn does not have are converted as their own ``to_onnx`` does. Without
skl2onnx there is still ``to_onnx`` of every model.
"""

from __future__ import annotations

import sklearn.svm as theirs
from sklearn.base import is_classifier

from . import machines, svm
from ._model import Model

__all__ = ["register"]

#: Pipelines set it for their last classifier; scores stay a tensor either way.
_ZIPMAP = {"zipmap": [True, False]}


def register():
    """Registers converters for all estimators of this package with skl2onnx, which must be installed.

    >>> import mercer.onnx
    >>> from sklearn.datasets import load_iris
    >>> from mercer.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> mercer.onnx.register()                                        # doctest: +SKIP
    >>> graph = skl2onnx.to_onnx(SVC().fit(X, y), X[:1].astype("f4"))  # doctest: +SKIP
    """
    from skl2onnx import update_registered_converter
    from skl2onnx._parse import sklearn_parsers_map, update_registered_parser
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import get_converter

    # skl2onnx 1.20 sets an option in pipelines that it then refuses, for scikit-learn's LinearSVC too.
    get_converter(sklearn_operator_name_map[theirs.LinearSVC]).get_allowed_options().update(_ZIPMAP)
    for name in svm.__all__:
        ours, parent = getattr(svm, name), getattr(theirs, name)
        if isinstance(ours, type):
            sklearn_operator_name_map[ours] = sklearn_operator_name_map[parent]
            if parent in sklearn_parsers_map:
                update_registered_parser(ours, sklearn_parsers_map[parent])
    for kind in (Model, *(getattr(machines, name) for name in machines.__all__)):
        update_registered_converter(
            kind, f"Mercer{kind.__name__}", _shapes, _convert, parser=_parse, options=_ZIPMAP
        )


def _parse(scope, model, inputs, custom_parsers=None):
    """Declares the outputs: a label and scores, or one score."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
    from skl2onnx._supported_operators import get_model_alias

    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs.extend(inputs)
    if is_classifier(model):
        operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
        operator.outputs.append(scope.declare_local_variable("scores", FloatTensorType()))
    else:
        operator.outputs.append(scope.declare_local_variable("score", FloatTensorType()))
    return operator.outputs


def _shapes(operator):
    """Sets the types of the outputs to those of the graph."""
    from skl2onnx.common.data_types import _guess_type_proto

    rows = operator.inputs[0].get_first_dimension()
    for variable, found in zip(operator.outputs, _written(operator.raw_operator).graph.output, strict=True):
        columns = [dim.dim_value for dim in found.type.tensor_type.shape.dim[1:]]
        variable.set_type(_guess_type_proto(found.type.tensor_type.elem_type, [rows, *columns]))


def _convert(scope, operator, container):
    """Adds the nodes and the tables of the model's own graph."""
    from onnx import helper, numpy_helper
    from skl2onnx.common._apply_operation import apply_cast

    model = _written(operator.raw_operator)
    graph, versions = model.graph, {used.domain: used.version for used in model.opset_import}
    names = {found.name: variable.full_name for variable, found in zip(operator.outputs, graph.output, strict=True)}
    rows = graph.input[0]
    names[rows.name] = scope.get_unique_variable_name("rows")
    kind = rows.type.tensor_type.elem_type
    apply_cast(scope, operator.inputs[0].full_name, names[rows.name], container, to=kind)
    for table in graph.initializer:
        names[table.name] = scope.get_unique_variable_name(table.name)
        container.add_initializer(
            names[table.name], table.data_type, list(table.dims), numpy_helper.to_array(table).ravel()
        )
    for node in graph.node:
        for output in node.output:
            names.setdefault(output, scope.get_unique_variable_name(output))
        container.add_node(
            node.op_type,
            [names[name] for name in node.input],
            [names[name] for name in node.output],
            op_domain=node.domain,
            op_version=versions[node.domain],
            name=scope.get_unique_operator_name(node.op_type),
            **{attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
        )


def _written(model):
    """What `to_onnx` writes of a model."""
    import onnx

    return onnx.load_from_string(model.to_onnx())
