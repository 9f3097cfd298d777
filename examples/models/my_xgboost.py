from xgboost import XGBClassifier


def boosted(random_state, trees=10):
    return XGBClassifier(n_estimators=trees, max_depth=2, n_jobs=1, random_state=random_state)
