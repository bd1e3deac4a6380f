"""Other people's systems: ONNX files and MLflow models. Each module needs the extra of its name."""
