"""A client of the Python SDK: `client.py REQUEST COMMAND…`, prints what it saw as JSON."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    calls = json.loads(sys.argv[1])
    server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
    async with Client(server) as client:
        server = {"info": plain(client.server_info), "capabilities": plain(client.server_capabilities), "instructions": client.instructions}
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [plain(tool) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        results = []
        for name, arguments in calls:
            try:
                results.append(plain(await client.call_tool(name, arguments)))
            except Exception as error:  # what the user of the SDK would see
                results.append({"exception": str(error)})
    print(json.dumps({"server": server, "tools": tools, "results": results}))


asyncio.run(main())
