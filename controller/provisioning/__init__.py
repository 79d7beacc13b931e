"""Creates volumes, claims and pods: at a bounded rate, under names that only Larder may use."""
