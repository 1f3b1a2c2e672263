#!/usr/bin/env python3
"""A Django shop on a SQLite file or a PostgreSQL database.

    django_shop.py create DATABASE        makes the tables and the first rows
    django_shop.py work DATABASE NAME     creates, changes and deletes rows as NAME, by the ORM
    django_shop.py check DATABASE NAME... reads everything, and requires what each NAME has done
    django_shop.py late DATABASE NAME     comments as NAME, for a device that is updated later
    django_shop.py migrate DATABASE       brings the tables to the version of SHOP_VERSION, 1 or 2
    django_shop.py updated DATABASE       requires that version 2 has nothing to migrate, and all comments
"""

import datetime
import decimal
import io
import sys

import django
from django.conf import settings
from django.core.management import call_command
from driver import require, run


def database(url):
    """Returns Django's settings for a path or a postgres:// URL."""
    if not url.startswith("postgres://"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url, "OPTIONS": {"timeout": 20}}
    user, rest = url.removeprefix("postgres://").split("@")
    address, name = rest.split("/")
    host, port = address.split(":")
    return {"ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": user, "HOST": host, "PORT": port}


def start(url):
    settings.configure(
        DATABASES={"default": database(url)},
        INSTALLED_APPS=[
            "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.admin",
            "django.contrib.messages", "shop",
        ],
        TEMPLATES=[{
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {"context_processors": [
                "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]},
        }],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        SECRET_KEY="a key for tests",
        USE_TZ=True,
    )
    django.setup()


def create(url):
    start(url)
    for app in ["contenttypes", "auth", "sessions", "admin"]:
        call_command("migrate", app, verbosity=0)
    call_command("migrate", "shop", "0001", verbosity=0)
    from django.contrib.auth.models import Permission, User
    from shop.models import Comment, Customer, Order, Product, Tag

    clerk = User.objects.create_user("clerk", password="x")
    clerk.user_permissions.set(Permission.objects.filter(content_type__app_label="shop"))
    Tag.objects.bulk_create([Tag(slug=slug) for slug in ("new", "sale", "heavy")])
    customers = [
        Customer.objects.create(name=f"Customer {n}", email=f"c{n}@shop.test", profile={"visits": n, "of": [n, None]})
        for n in range(10)
    ]
    products = [
        Product.objects.create(sku=f"P{n}", name=f"Product {n}", price=decimal.Decimal(n) / 4, stock=n * 10)
        for n in range(20)
    ]
    order = None
    for n, customer in enumerate(customers):
        order = Order.objects.create(customer=customer, placed=moment(n), previous=order)
        for product in products[n:n + 3]:
            order.lines.create(product=product, quantity=n + 1, price=product.price)
        Comment.objects.create(content_object=order, text=f"about order {n}")
    for product in products[::2]:
        product.tags.create(tag_id="sale")
    customers[0].tags.create(tag_id="heavy")


def moment(n):
    return datetime.datetime(2026, 1, 1 + n, 12, 30, 15, 250000 * (n % 4), tzinfo=datetime.timezone.utc)


def work(url, name):
    start(url)
    from django.contrib.admin.models import ADDITION, LogEntry
    from django.contrib.auth.models import User
    from django.contrib.contenttypes.models import ContentType
    from django.db import transaction
    from shop.models import Customer, Order, Product, Tag

    place = NAMES.index(name)
    tag = Tag.objects.create(slug=f"by-{name}")
    with transaction.atomic():
        customer = Customer.objects.create(name=name, email=f"{name}@shop.test", profile={"made": {"by": name}})
        lamp = Product.objects.create(sku=f"{name}-lamp", name="Lamp", price=decimal.Decimal("19.90"), stock=3)
        lamp.tags.create(tag=tag)
        lamp.comments.create(text=f"{name} recommends it")
        customer.tags.create(tag=tag)
        order = Order.objects.create(customer=customer, placed=moment(place))
        order.lines.create(product=lamp, quantity=2, price=lamp.price)
        order.lines.create(product=Product.objects.get(sku="P3"), price=1)
        order.comments.create(text=f"{name}'s first")
        LogEntry.objects.create(
            user=User.objects.get(username="clerk"), content_type=ContentType.objects.get_for_model(lamp),
            object_id=str(lamp.pk), object_repr=f"{name}-lamp", action_flag=ADDITION,
        )
    Product.objects.bulk_create([
        Product(sku=f"{name}-{n}", name=f"Bulk {n}", price=n, details={"n": n}) for n in range(30)
    ])
    # An object that was read before is saved later.
    lamp.stock = 4
    lamp.save()
    mine = Product.objects.get(sku=f"P{10 + place}")
    mine.stock -= 7
    mine.details = {"sold by": name}
    mine.save()
    known = Customer.objects.get(email=f"c{place}@shop.test")
    known.profile["visits"] += 1
    known.save()
    # Deletes the product with its tags and comments, by the ORM.
    Product.objects.get(sku=f"P{18 + place}").delete()


def check(url, *names):
    start(url)
    call_command("check", fail_level="WARNING", stdout=io.StringIO())
    from django.apps import apps
    from django.contrib.admin.models import LogEntry
    from django.db import connection
    from shop.models import Comment, Customer, Order, Product, TaggedItem

    rows = sum(len(list(model.objects.all())) for model in apps.get_models(include_auto_created=True))
    connection.check_constraints()
    for item in [*TaggedItem.objects.all(), *Comment.objects.all()]:
        require(item.content_object is not None, f"{item} {item.pk} refers to {item.object_id}, which is missing")
    for product in Product.objects.all():
        require(product.shelf_space == product.stock * 10, f"the generated column of {product.sku}")
    for entry in LogEntry.objects.all():
        require(entry.get_edited_object().sku == entry.object_repr, f"log entry {entry.pk} names another object")
    require(Order.objects.filter(previous=None).count() == 1 + len(names), "orders without a previous one")
    for name in names:
        place = NAMES.index(name)
        lamp = Product.objects.get(sku=f"{name}-lamp")
        require(lamp.stock == 4 and lamp.price == decimal.Decimal("19.90"), f"{name}'s lamp")
        require([tag.tag_id for tag in lamp.tags.all()] == [f"by-{name}"], f"the tags of {name}'s lamp")
        require([c.text for c in lamp.comments.all()] == [f"{name} recommends it"], f"the comments on {name}'s lamp")
        customer = Customer.objects.get(email=f"{name}@shop.test")
        require(customer.profile == {"made": {"by": name}}, f"{name}'s profile")
        require(Customer.objects.get(pk=customer.pk).name == name, f"{name} by key")
        order = customer.orders.get()
        require(order.placed == moment(place), f"the time of {name}'s order")
        require(sorted(line.product.sku for line in order.lines.all()) == ["P3", f"{name}-lamp"], f"{name}'s lines")
        require([c.text for c in order.comments.all()] == [f"{name}'s first"], f"the comments on {name}'s order")
        require(Product.objects.filter(sku__startswith=f"{name}-").count() == 31, f"{name}'s products")
        require(Product.objects.get(sku=f"P{10 + place}").details == {"sold by": name}, f"{name}'s sale")
        require(Customer.objects.get(email=f"c{place}@shop.test").profile["visits"] == place + 1, f"{name}'s visit")
        require(not Product.objects.filter(sku=f"P{18 + place}").exists(), f"what {name} deleted")
    print(f"{rows} objects read; generic relations, log entries and generated columns agree")


def late(url, name):
    start(url)
    from shop.models import Comment, Product

    for number in range(3):
        Comment.objects.create(content_object=Product.objects.get(sku="P3"), text=f"{name} comments late {number}")


def migrate(url):
    start(url)
    call_command("migrate", verbosity=1)


def updated(url):
    start(url)
    call_command("migrate", check=True, verbosity=0)
    from django.db import connection
    from shop.models import Comment

    connection.check_constraints()
    require(Comment.objects.filter(text__contains="late", stars=0).count() == 6, "the comments of old and new application")
    require(not Comment.objects.exclude(stars=0).exists(), "the stars of the others")
    print(f"nothing to migrate; {Comment.objects.count()} comments have stars")


NAMES = ["anna", "ben"]

if __name__ == "__main__":
    run(sys.argv, create=create, work=work, check=check, late=late, migrate=migrate, updated=updated)
