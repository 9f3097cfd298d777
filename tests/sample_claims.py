"""Privacy claims for tests of the table, the pictures and the pages."""

from fedkd_flwr.privacy.claims.claim import label_privacy, noisy_max_at_party, noisy_max_at_server, subsampling
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.plan import NoisyVotes
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax

_ASKED = NoisyVotes(mechanism=GaussianMax(sigma=40.0), num_queries=20)
(AT_SERVER,) = (c.as_dict() for c in noisy_max_at_server(_ASKED, delta=1e-5))
RECORD, PARTY = (c.as_dict() for c in noisy_max_at_party(_ASKED, delta=1e-5, teachers=5))
LABELS = label_privacy(RandomizedResponse(epsilon=0.01, num_classes=3), num_labels=60, delta=1e-5).as_dict()
SUBSET = subsampling(Subsampling(num_rows=1000, subset_rows=300, replacement=True)).as_dict()
