"""`larder support`: what an engineer needs to see of an installation, without a secret."""
