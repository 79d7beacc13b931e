"""Device information: what nodes advertise and pods request, in annotations."""
