from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer


def ranked(random_state, bins=20):
    ranks = QuantileTransformer(n_quantiles=bins, random_state=random_state)
    return make_pipeline(ranks, LogisticRegression(max_iter=1000))
