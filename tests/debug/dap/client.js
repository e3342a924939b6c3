// A session of the client that Microsoft writes for tests of debug adapters.
// node client.js PYTHON TRACE SCRIPT LINE: prints what it was told, as JSON.
"use strict";

const path = require("path");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

async function main(python, trace, script, line) {
  const client = new DebugClient(python, path.join(__dirname, "adapter.py"), "gradscope");
  await client.start();
  const told = {};
  told.can = (await client.initializeRequest()).body;
  const ready = client.waitForEvent("initialized");
  await client.launchRequest({ program: trace });
  await ready;
  const wanted = { source: { path: script }, breakpoints: [{ line: Number(line) }] };
  told.breakpoints = (await client.setBreakpointsRequest(wanted)).body.breakpoints;
  await client.setExceptionBreakpointsRequest({ filters: ["inf"] });
  const stop = async (asked) => (await Promise.all([client.waitForEvent("stopped"), asked()]))[0].body;
  told.entry = await stop(() => client.configurationDoneRequest());
  told.line = await stop(() => client.continueRequest({ threadId: 1 }));
  told.inf = await stop(() => client.continueRequest({ threadId: 1 }));
  told.stack = (await client.stackTraceRequest({ threadId: 1 })).body.stackFrames;
  const scopes = (await client.scopesRequest({ frameId: told.stack[0].id })).body.scopes;
  told.variables = {};
  for (const { name, variablesReference } of scopes) {
    const { variables } = (await client.variablesRequest({ variablesReference })).body;
    told.variables[name] = variables.map((each) => `${each.name}: ${each.value}`);
  }
  told.back = await stop(() => client.customRequest("stepBack", { threadId: 1 }));
  told.reverse = await stop(() => client.customRequest("reverseContinue", { threadId: 1 }));
  await client.stop();
  console.log(JSON.stringify(told));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
