"""Creates volumes, PersistentVolumeClaims and pods: at a bounded rate, under names that only Larder may use."""
