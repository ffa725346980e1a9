// A client of the TypeScript SDK: `client.mjs REQUEST COMMAND…`, prints what it saw as JSON. Packages are looked
// for from the directory in SBX_TEST_MCP.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.SBX_TEST_MCP}/npm/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Client } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

const [calls, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env }, stderr: "inherit" }));
const server = { info: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions() };
const tools = [];
let cursor;
do {
  const page = await client.listTools(cursor === undefined ? {} : { cursor });
  tools.push(...page.tools);
  cursor = page.nextCursor;
} while (cursor !== undefined);
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    results.push({ exception: error.message });
  }
}
await client.close();
console.log(JSON.stringify({ server, tools, results }));
