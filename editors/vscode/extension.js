// Starts `gradscope dap` for a debug session, or joins one that listens; opens the page of a trace.
"use strict";

const { execFile } = require("child_process");
const os = require("os");
const path = require("path");
const vscode = require("vscode");

class Adapters {
  createDebugAdapterDescriptor(session) {
    const { port, socket } = session.configuration;
    if (socket) {
      return new vscode.DebugAdapterNamedPipeServer(socket);
    }
    if (port) {
      return new vscode.DebugAdapterServer(port, "127.0.0.1");
    }
    const [command, ...rest] = vscode.workspace.getConfiguration("gradscope").get("command");
    return new vscode.DebugAdapterExecutable(command, rest);
  }
}

/** The trace that a command is about: the one that was clicked, or one that is chosen. */
async function chosenTrace(clicked) {
  if (clicked) {
    return clicked.fsPath;
  }
  const found = await vscode.window.showOpenDialog({
    title: "Trace to open",
    filters: { Traces: ["json", "gz", "zst"] },
  });
  return found ? found[0].fsPath : undefined;
}

/** Write the page of a trace with `gradscope view` and open it in the browser. */
async function openPage(clicked) {
  const trace = await chosenTrace(clicked);
  if (!trace) {
    return;
  }
  const words = vscode.workspace.getConfiguration("gradscope").get("command");
  const [command, ...before] = words.filter((word) => word !== "dap");
  const page = path.join(os.tmpdir(), `gradscope-${path.basename(trace)}.html`);
  const options = [...before, "view", "--no-open", "-o", page, trace];
  await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: "gradscope: writing the page" },
    () =>
      new Promise((done) => {
        execFile(command, options, { cwd: path.dirname(trace) }, (error, _out, said) => {
          if (error) {
            vscode.window.showErrorMessage(`gradscope: ${said.trim() || error.message}`);
          } else {
            vscode.env.openExternal(vscode.Uri.file(page));
          }
          done();
        });
      }),
  );
}

function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("gradscope", new Adapters()),
    vscode.commands.registerCommand("gradscope.openPage", openPage),
  );
}

module.exports = { activate };
