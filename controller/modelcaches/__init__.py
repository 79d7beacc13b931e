"""ModelCaches: a PersistentVolumeClaim of a namespace, and a Job that downloads a model to it once."""
