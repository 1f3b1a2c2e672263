"""A column that every comment needs, without a default in the table, as `makemigrations` writes it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='comment',
            name='stars',
            field=models.IntegerField(default=0),
        ),
    ]
