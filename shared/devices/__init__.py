"""What nodes advertise and pods request: device information, in the annotation of a Node or a Pod."""
