"""What our API answers, as models, a file an area.

They describe and are not run through: the handlers build the same shapes by hand.
"""
