"""A folder for PYTHONPATH: `sitecustomize` alone is imported from it, by Python itself."""
