//! The language server as a program, and Neovim with the files of `editors/vim`.

use crate::common::{Said, file, run, until, weft};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use weft_units::testing;

const WRONG: &str =
    "# größe 😀\nclass web = cgroup \"/😀\" and tcp prot 80\nroot = wfq { web: 1, default: 1 }\n";

/// A language server behind pipes, as an editor has it.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Self {
        let mut child = weft().args(["policy", "serve"]).stdin(Stdio::piped()).spawn().expect("run weft");
        let input = child.stdin.take().expect("standard input");
        let output = BufReader::new(child.stdout.take().expect("standard output"));
        Self { child, input, output }
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.write(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.read()["result"].clone()
    }

    fn write(&mut self, message: &Value) {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("write");
        self.input.flush().expect("flush");
    }

    fn read(&mut self) -> Value {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.output.read_line(&mut head).expect("read") > 0, "the server has ended: {head}");
        }
        let length =
            head.trim().strip_prefix("Content-Length: ").expect("a length").parse().expect("a number");
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).expect("read");
        serde_json::from_slice(&content).expect("JSON")
    }

    fn end(self) -> Said {
        drop((self.input, self.output));
        self.child.wait_with_output().expect("output").into()
    }
}

#[test]
fn the_server_speaks_with_an_editor_over_pipes() {
    let uri = "file:///p.weft";
    let mut server = Server::start();
    let about = server.ask("initialize", json!({"capabilities": {}, "processId": null, "rootUri": null}));
    assert_eq!(about["serverInfo"]["name"], "weft");
    server.tell("initialized", json!({}));
    server.tell(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": uri, "languageId": "weft", "version": 1, "text": WRONG}}),
    );
    let told = server.read()["params"]["diagnostics"].clone();
    assert_eq!(told.as_array().expect("a list").len(), 1, "{told}");
    let before = WRONG.lines().nth(1).and_then(|line| line.split("prot").next()).expect("the mistake");
    let column = before.encode_utf16().count();
    assert_eq!(column, before.chars().count() + 1, "one character of two units");
    assert_eq!(told[0]["range"]["start"], json!({"line": 1, "character": column}), "{told}");
    let range = told[0]["range"].clone();
    let actions = server.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": uri}, "range": range, "context": {"diagnostics": told}}),
    );
    assert_eq!(actions[0]["edit"]["changes"][uri], json!([{"range": range, "newText": "port"}]), "{actions}");
    assert_eq!(server.ask("shutdown", Value::Null), Value::Null);
    server.tell("exit", Value::Null);
    let said = server.end();
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}

#[test]
fn the_server_ends_with_one_line_when_an_editor_is_none() {
    for wrong in [
        "GET / HTTP/1.1\r\n\r\n",
        "Content-Length: 18446744073709551615\r\n\r\n",
        "Content-Length: 2\r\n\r\n{]",
        "",
    ] {
        let mut server = Server::start();
        server.input.write_all(wrong.as_bytes()).expect("write");
        let said = server.end();
        assert_eq!(said.code, 1, "{wrong:?}: {}", said.err);
        assert!(
            said.err.starts_with("error: ") && said.err.trim_end().lines().count() == 1,
            "{wrong:?}: {}",
            said.err
        );
    }
}

/// Opens a policy with a mistake, waits for the diagnostic, applies its correction and saves.
const SCRIPT: &str = r#"
local function fail(why) io.stderr:write(why .. '\n') vim.cmd('cquit 1') end
if vim.bo.filetype ~= 'weft' then fail('the file type is ' .. vim.bo.filetype) end
local colour = vim.fn.synIDattr(vim.fn.synID(2, 1, 1), 'name')
if colour ~= 'weftItem' then fail('`class` is coloured as ' .. colour) end
if not vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20) then fail('no diagnostic') end
local found = vim.diagnostic.get(0)
if #found ~= 1 then fail(#found .. ' diagnostics') end
local place = { line = found[1].lnum, character = 0 }
local params = {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = { start = place, ['end'] = place },
  context = { diagnostics = {} },
}
local answers = vim.lsp.buf_request_sync(0, 'textDocument/codeAction', params, 60000) or {}
local applied = 0
for _, answer in pairs(answers) do
  for _, action in ipairs(answer.result or {}) do
    vim.lsp.util.apply_workspace_edit(action.edit, 'utf-16')
    applied = applied + 1
  end
end
if applied ~= 1 then fail(applied .. ' corrections') end
if not vim.wait(60000, function() return #vim.diagnostic.get(0) == 0 end, 20) then fail('the diagnostic stays') end
vim.cmd('write')
vim.cmd('qall!')
"#;

#[test]
fn neovim_shows_a_mistake_and_applies_its_correction() {
    const TEST: &str = "neovim_shows_a_mistake_and_applies_its_correction";
    if Command::new("nvim").arg("--version").output().is_err() {
        testing::skip(TEST, "no nvim; install neovim to see the server in an editor");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (policy, script) = (file(&folder, "p.weft", WRONG), file(&folder, "script.lua", SCRIPT));
    assert_eq!(run(&["policy", "check", "--quiet", &policy]).code, 1);
    let editors = format!("{}/../../editors/vim", env!("CARGO_MANIFEST_DIR"));
    let command = format!("let g:weft_command = ['{}', 'policy', 'serve']", env!("CARGO_BIN_EXE_weft"));
    let mut nvim = Command::new("nvim");
    nvim.args(["--headless", "--clean", "--cmd", &format!("set runtimepath^={editors}"), "--cmd", &command])
        .args(["--cmd", "filetype plugin on | syntax on", &policy, "-S", &script])
        // No swap file, log or plugin of the user.
        .env("HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = nvim.spawn().expect("run nvim");
    let ended = until(Duration::from_secs(120), || child.try_wait().expect("wait").is_some());
    if !ended {
        child.kill().expect("kill");
    }
    let output = child.wait_with_output().expect("output");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(ended && output.status.success(), "{said}");
    let saved = std::fs::read_to_string(&policy).expect("read");
    assert_eq!(saved, WRONG.replace("prot", "port"), "{said}");
    let checked = run(&["policy", "check", &policy]);
    assert_eq!(checked.code, 0, "{}", checked.out);
}
