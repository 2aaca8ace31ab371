"""Read a feed in the transaction of the work."""

from django.db import transaction
from shop.models import Event


def process(work, most=1000):
    """Events that came since the last call: the position moves if and only if the work commits."""
    with transaction.atomic():
        events = list(Event.objects.raw("SELECT * FROM feed_read('mailer', null::shop_event, %s)", [most]))
        for event in events:
            work(event)
    return len(events)
