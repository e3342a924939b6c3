// Starts `gradscope dap` for a debug session, or joins one that listens.
"use strict";

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

function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("gradscope", new Adapters()),
  );
}

module.exports = { activate };
