"""Events on services whose pods download their own copy of a model, because no cache could give it to them."""
