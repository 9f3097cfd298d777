"""The only code that adds noise: to votes, labels, scores and sums of updates; and a random choice of rows.

A mechanism describes one use of itself (``dp_event()``: one query, one label); `fedkd_flwr.privacy.cost` measures it.
Every guarantee here is stated for *one neighbouring change*, a change of the input of one use; which change of whose
data that is (one record, one party) is the caller's to say, in a claim. Noise comes from the operating system's
entropy; a seeded ``rng`` is for tests and simulations, and whoever passes one must not claim privacy. How exactly the
noise follows its law stands in `fedkd_flwr.privacy.noise.sampling`.

| mechanism | input | released | one neighbouring change |
|---|---|---|---|
| `LaplaceMax`, `GaussianMax` | vote counts of a row | class, or noisy counts | ``votes`` votes go to other classes |
| `ConfidentGaussianMax` | vote counts of a row | class, or `ABSTAIN` | ``votes`` votes go to other classes |
| `RandomizedResponse` | a label | a label | the label becomes any other |
| `BitFlip` | a label | C bits | the label becomes any other |
| `NoisyScores` | scores of a row | noisy scores | the scores become any other |
| `ClippedSum` | updates of a net | noisy sum of them | an update becomes any other |
| `Subsampling` | a party's rows | what is computed from the drawn rows | a row is added or removed |
"""
