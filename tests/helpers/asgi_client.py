"""Requests to an ASGI application without a network."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx


def _run(coroutine):
    """Run a coroutine in a thread: the browser of other tests has an event loop in this one."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()


class Client:
    """A synchronous client of an application."""

    def __init__(self, app):
        self.app = app

    def request(self, method, path, **options):
        async def send():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, **options)

        return _run(send())

    def post_all(self, path, bodies):
        """Send requests at the same time; return their responses in order."""

        async def send():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await asyncio.gather(*(client.post(path, json=body) for body in bodies))

        return _run(send())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def put(self, path, **options):
        return self.request("PUT", path, **options)


async def in_parts(body, size):
    """Yield a body in parts, so that its length is not declared."""
    for start in range(0, len(body), size):
        yield body[start : start + size]
