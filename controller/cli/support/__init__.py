"""`larder support`: collects what an engineer needs to know about an installation, without secrets."""
