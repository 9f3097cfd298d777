"""Attacks on what a run really sent: who was a member, and how much epsilon an attacker can prove.

An attack gives a *lower* bound of what leaks: another attacker may do better. Only a claim bounds it from above.
"""
