"""The kinds that Larder reads and writes, one module a kind; the CRDs are generated from them."""
