"""`larder support`: everything an engineer needs to know about an installation, without secrets."""
