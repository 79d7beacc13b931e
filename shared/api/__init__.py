"""The kinds that Larder reads and writes, one module per kind; the CRDs are generated from them."""
