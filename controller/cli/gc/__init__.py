"""`larder gc`: finds and deletes claims that Larder created and whose owner is gone."""
