"""Pretrained nets that read texts, beside the core (extra ``text``): the zoo finds them through the registry."""
