"""The installation itself on real nodes: new certificates, upgrades, the way back, removal."""
