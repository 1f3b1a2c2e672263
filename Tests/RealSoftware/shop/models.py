"""A small shop with the parts of Django that hold ids without a foreign key, or compute values in the database."""

import os
import uuid

from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.db.models import F


class Tag(models.Model):
    """A word for objects of any model; its key is text."""

    slug = models.SlugField(primary_key=True)


class TaggedItem(models.Model):
    """A tag on an object of any model: the key of the object is text, and no foreign key."""

    tag = models.ForeignKey(Tag, models.CASCADE, related_name="items")
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.CharField(max_length=64, db_index=True)
    content_object = GenericForeignKey()

    class Meta:
        unique_together = [("tag", "content_type", "object_id")]


class Comment(models.Model):
    """A comment on an object with an integer key, which no foreign key declares."""

    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.PositiveIntegerField(db_index=True)
    content_object = GenericForeignKey()
    text = models.TextField()
    if os.environ.get("SHOP_VERSION") == "2":
        stars = models.IntegerField(default=0)


class Customer(models.Model):
    """A customer, under a key that the application makes."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=80)
    email = models.EmailField(unique=True)
    profile = models.JSONField(default=dict)
    tags = GenericRelation(TaggedItem)


class Product(models.Model):
    """A product, under an id that the database gives; its shelf space is a generated column."""

    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    stock = models.IntegerField(default=0)
    is_listed = models.BooleanField(default=True)
    details = models.JSONField(null=True)
    shelf_space = models.GeneratedField(
        expression=F("stock") * 10, output_field=models.BigIntegerField(), db_persist=True
    )
    tags = GenericRelation(TaggedItem)
    comments = GenericRelation(Comment)


class Order(models.Model):
    """An order with its lines."""

    customer = models.ForeignKey(Customer, models.PROTECT, related_name="orders")
    placed = models.DateTimeField()
    previous = models.ForeignKey("self", models.SET_NULL, null=True)
    products = models.ManyToManyField(Product, through="OrderLine")
    comments = GenericRelation(Comment)


class OrderLine(models.Model):
    """A product in an order."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField(default=1)
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        unique_together = [("order", "product")]
