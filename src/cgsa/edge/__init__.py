"""Export of a trained model to a folder that needs onnxruntime and numpy alone, and the program that runs it there."""
