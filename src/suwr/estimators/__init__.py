"""`SUWRClassifier` and `SUWRRegressor`, and what they stand on."""
