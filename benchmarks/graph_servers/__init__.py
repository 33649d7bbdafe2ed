"""Training on a graph whose parts are on graph servers, beside training on the graph itself."""
