"""Models as Python objects: a machine to ask, a scikit-learn classifier, and a classifier of single samples."""
