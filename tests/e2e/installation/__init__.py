"""The installation itself on real nodes: certificate renewal, upgrades, rollback, removal."""
