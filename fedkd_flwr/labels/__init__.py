"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower.

Here are the names that a rule or a strategy of one's own needs.
"""

from fedkd_flwr.labels.voting import ABSTAIN as ABSTAIN
from fedkd_flwr.labels.voting import Ballot as Ballot
from fedkd_flwr.labels.voting import Consensus as Consensus
from fedkd_flwr.labels.voting import ConsensusRule as ConsensusRule
from fedkd_flwr.labels.voting import Labels as Labels
from fedkd_flwr.labels.voting import VoteCounter as VoteCounter
from fedkd_flwr.labels.voting import agreement as agreement
from fedkd_flwr.labels.voting import check_labels as check_labels
from fedkd_flwr.labels.voting import consistent_labels as consistent_labels
from fedkd_flwr.labels.voting import is_informative as is_informative
from fedkd_flwr.labels.voting import majority as majority
