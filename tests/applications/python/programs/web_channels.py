"""Django Channels: a chat between consumers, over both channel layers of channels_redis."""

import asyncio
import json

import django
import redis
from asgiref.testing import ApplicationCommunicator
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.layers import get_channel_layer
from django.conf import settings

from helpers import PATIENCE_S, URL, check

LAYERS = {"default": "core.RedisChannelLayer", "pubsub": "pubsub.RedisPubSubChannelLayer"}

settings.configure(
    SECRET_KEY="of a test",
    CHANNEL_LAYERS={
        name: {"BACKEND": f"channels_redis.{backend}", "CONFIG": {"hosts": [URL]}} for name, backend in LAYERS.items()
    },
)
django.setup()
server = redis.Redis.from_url(URL, decode_responses=True)


class Chat(AsyncJsonWebsocketConsumer):
    async def connect(self):
        await self.channel_layer.group_add("room", self.channel_name)
        await self.accept()

    async def receive_json(self, content):
        await self.channel_layer.group_send("room", {"type": "chat.said", "text": content["text"]})

    async def chat_said(self, event):
        await self.send_json({"text": event["text"]})

    async def disconnect(self, code):
        await self.channel_layer.group_discard("room", self.channel_name)


class ChatOverPubSub(Chat):
    channel_layer_alias = "pubsub"


def run(_):
    asyncio.run(run_all())


async def run_all():
    with check("send and receive"):
        await send_and_receive(get_channel_layer("default"))
    with check("chat"):
        await chat(Chat)
    with check("send and receive over pub/sub"):
        await send_and_receive(get_channel_layer("pubsub"))
    with check("chat over pub/sub"):
        await chat(ChatOverPubSub)
    with check("many groups"):
        await many_groups(get_channel_layer("default"))


async def send_and_receive(layer):
    channel = await layer.new_channel()
    if layer is get_channel_layer("pubsub"):
        await heard_by_the_server(channel)
    for number in range(20):
        await layer.send(channel, {"type": "number", "number": number})
    async with asyncio.timeout(PATIENCE_S):
        assert [(await layer.receive(channel))["number"] for _ in range(20)] == list(range(20))


async def heard_by_the_server(part):
    """Waits until a channel with that in its name is subscribed. This layer does not wait itself, and what it sends until then is lost."""
    async with asyncio.timeout(PATIENCE_S):
        while not any(part in name for name in server.pubsub_channels()):
            await asyncio.sleep(0.02)


async def chat(consumer):
    guests = [await connect(consumer) for _ in range(3)]
    if consumer is ChatOverPubSub:
        await heard_by_the_server("__group__")
    for number, guest in enumerate(guests):
        await guest.send_input({"type": "websocket.receive", "text": json.dumps({"text": f"I am {number}"})})
        for other in guests:
            assert await heard(other) == f"I am {number}"
    await guests.pop().send_input({"type": "websocket.disconnect", "code": 1000})
    await guests[0].send_input({"type": "websocket.receive", "text": json.dumps({"text": "who is left?"})})
    for guest in guests:
        assert await heard(guest) == "who is left?"
        await guest.send_input({"type": "websocket.disconnect", "code": 1000})


async def connect(consumer):
    guest = ApplicationCommunicator(consumer.as_asgi(), {"type": "websocket", "path": "/", "headers": [], "subprotocols": []})
    await guest.send_input({"type": "websocket.connect"})
    answer = await guest.receive_output(PATIENCE_S)
    assert answer["type"] == "websocket.accept", f"a guest was not let in: {answer}"
    return guest


async def heard(guest):
    return json.loads((await guest.receive_output(PATIENCE_S))["text"])["text"]


async def many_groups(layer):
    """One message to more channels than fit into a line: a script with a key for each."""
    channels = [await layer.new_channel() for _ in range(100)]
    for channel in channels:
        await layer.group_add("all", channel)
    await layer.group_send("all", {"type": "news"})
    async with asyncio.timeout(PATIENCE_S):
        for channel in channels:
            assert (await layer.receive(channel))["type"] == "news"
    await layer.flush()
    # Nobody receives this message.
    await layer.send("last", {"type": "news"})
