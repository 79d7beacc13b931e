"""What nodes advertise and pods ask for: device information, in the annotation of a Node or a Pod."""
