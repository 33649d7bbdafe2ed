"""The graphs of the measured grids."""

from __future__ import annotations

from benchmarks.corpus.subjects import Subject

#: The first two are of the corpus too; the last two are in nothing that is fitted or trained, and are opened for
#: `benchmarks.decisions` alone. Of either pair the second is large enough for caches and parts to matter.
SUBJECTS = (
    Subject("dblp"),
    Subject("synthetic:nodes=300000,degree=25,features=64,classes=20,seed=8,noise=2,train=0.1"),
    Subject("facebook_pages"),
    Subject("wordnet_en"),
)
