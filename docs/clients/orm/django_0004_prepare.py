"""Prepare the existing table of the model Order for feeds."""

from django.db import migrations, models


def prepare(apps, editor):
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT feed_prepare('shop_order')")
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0003_order")]
    operations = [
        migrations.SeparateDatabaseAndState(
            [migrations.RunPython(prepare)],
            [
                migrations.AddField(
                    "order",
                    "xact",
                    models.BigIntegerField(db_default=models.Func(function="xact_id"), editable=False),
                )
            ],
        )
    ]
