"""Read a feed in the transaction of the work."""

from django.db import transaction
from shop.models import Event


def process(work, max_rows=1000):
    """Process events committed since the last call. The position moves if and only if the work commits."""
    with transaction.atomic():
        events = list(Event.objects.raw("SELECT * FROM feed_read('mailer', null::shop_event, %s)", [max_rows]))
        for event in events:
            work(event)
    return len(events)
