"""The debugger in the editor: a server of the Debug Adapter Protocol over a trace."""
