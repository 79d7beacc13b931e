"""Claims of their own for the pods of indexed workloads, made from the templates in an annotation."""
