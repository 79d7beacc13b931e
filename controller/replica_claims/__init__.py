"""Creates PersistentVolumeClaims for each pod of an indexed workload, from templates in an annotation."""
