"""Models with keys that the server generates."""

from django.db import models


class UuidV7(models.Func):
    function = "uuid_v7_nextval"
    output_field = models.UUIDField()


class UuidXact(models.Func):
    function = "uuid_xact_nextval"
    output_field = models.UUIDField()


class Customer(models.Model):
    id = models.UUIDField(primary_key=True, db_default=UuidV7(), editable=False)
    name = models.TextField()


class Event(models.Model):  # read in batches
    id = models.UUIDField(primary_key=True, db_default=UuidXact(), editable=False)
    body = models.TextField()
