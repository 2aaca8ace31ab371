"""Create a feed of the model Event."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.RunSQL("SELECT feed_create('mailer', 'shop_event')", "SELECT feed_drop('mailer')"),
        # The rows that worker_django.py cannot process.
        migrations.RunSQL("CREATE TABLE dead_letters (number bigint, id text, error text)", "DROP TABLE dead_letters"),
    ]
