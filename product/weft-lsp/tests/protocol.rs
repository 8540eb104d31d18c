//! The server as an editor meets it: messages in, messages out, positions in UTF-16.

use serde_json::{Value, json};
use weft_lsp::{ServeError, SourceHost, serve};
use weft_policy::{CompileOptions, FileError, FileText, Source, TenantFiles, Users, Wanted, compile};

const URI: &str = "file:///p.weft";

/// A policy with names and texts outside ASCII before the places in question.
const POLICY: &str = "\
# größe 😀
link 40gbps
class web = cgroup \"/😀\" and tcp and dport 80..443  # ü
class bulk = udp
slow = limit 2gbps of bulk
root = wfq { fair of web: 3, slow: 1, edf { voice: 2ms, rest: 9ms }: 4 }
class voice = mark 1
class rest = mark 2
algorithm mine(w: weight = 1) { child d: count rank = d sent { d += 1 } }
";

/// A file of one tenant, beside the document.
struct Vm1;

impl TenantFiles for Vm1 {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        assert_eq!(wanted.named_in, "/p.weft", "the path of the document");
        let text = match wanted.path {
            "vm1.weft" => "class web = tcp\nroot = priority { web }\n",
            "vm2.weft" => "class web = tcp\nroot = priorty { web }\n",
            other => return Err(FileError::Missing(other.to_owned())),
        };
        Ok(FileText { name: format!("/{}", wanted.path), text: text.to_owned() })
    }
}

#[test]
fn the_files_of_tenants_are_read() {
    let policy = |file: &str| {
        format!(
            "link 1gbps\nvm = tenant \"{file}\" of cgroup \"/vm\" {{ classes 4 }}\nroot = priority {{ vm }}\n"
        )
    };
    let (told, _) = asked(&policy("vm1.weft"), &[]);
    assert_eq!(told, json!([]));
    let (told, _) = asked(&policy("vm2.weft"), &[]);
    let found = told.as_array().expect("diagnostics");
    assert_eq!(found.len(), 1, "{told}");
    assert!(
        found[0]["message"].as_str().is_some_and(|text| text.starts_with("/vm2.weft:2:8: error")),
        "{told}"
    );
    assert_eq!(found[0]["range"]["start"], json!({"line": 0, "character": 0}));
}

/// A message as an editor writes it.
fn framed(message: &Value) -> String {
    let text = message.to_string();
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

/// The messages in what the server wrote.
fn parsed(mut out: &str) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some((head, rest)) = out.split_once("\r\n\r\n") {
        let length: usize = head.trim_start_matches("Content-Length: ").parse().expect("a length");
        messages.push(serde_json::from_str(&rest[..length]).expect("JSON"));
        out = &rest[length..];
    }
    messages
}

/// The messages of the server for `input`, and its end.
fn served(input: &str) -> (Vec<Value>, Result<(), ServeError>) {
    let mut out = Vec::new();
    let ended = serve(input.as_bytes(), &mut out, &SourceHost { files: &Vm1, users: Users::default() });
    (parsed(&String::from_utf8(out).expect("UTF-8")), ended)
}

/// The answers to questions about a text, in their order, behind the diagnostics of the text.
fn asked(text: &str, questions: &[(&str, Value)]) -> (Value, Vec<Value>) {
    let request = |id: usize, method: &str, params: &Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let notification =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let opened = json!({"textDocument": {"uri": URI, "languageId": "weft", "version": 1, "text": text}});
    let mut input =
        framed(&request(0, "initialize", &json!({"capabilities": {}, "processId": null, "rootUri": null})));
    input += &framed(&notification("initialized", json!({})));
    input += &framed(&notification("textDocument/didOpen", opened));
    for (id, (method, params)) in questions.iter().enumerate() {
        input += &framed(&request(id + 1, method, params));
    }
    input += &framed(&request(99, "shutdown", &Value::Null));
    input += &framed(&notification("exit", Value::Null));
    let (messages, ended) = served(&input);
    ended.expect("an end in order");
    assert_eq!(messages[0]["result"]["capabilities"]["positionEncoding"], "utf-16");
    assert_eq!(messages[1]["method"], "textDocument/publishDiagnostics");
    assert_eq!((&messages[1]["params"]["uri"], &messages[1]["params"]["version"]), (&json!(URI), &json!(1)));
    assert_eq!(messages.last().expect("the answer to `shutdown`")["result"], Value::Null);
    (messages[1]["params"]["diagnostics"].clone(), messages[2..messages.len() - 1].to_vec())
}

/// The position of the first `part` in `text`, moved by `by` characters.
fn position(text: &str, part: &str, by: usize) -> Value {
    let at = text.find(part).unwrap_or_else(|| panic!("{part}")) + by;
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    json!({"line": text[..at].matches('\n').count(), "character": line.encode_utf16().count()})
}

fn place(text: &str, part: &str, by: usize) -> Value {
    json!({"textDocument": {"uri": URI}, "position": position(text, part, by)})
}

/// The answer to one question.
fn answered(text: &str, method: &str, params: Value) -> Value {
    asked(text, &[(method, params)]).1.remove(0)
}

/// The byte of a position.
fn offset(text: &str, position: &Value) -> usize {
    let number = |key: &str| position[key].as_u64().expect("a number") as usize;
    let start: usize = text.split_inclusive('\n').take(number("line")).map(str::len).sum();
    let mut units = 0;
    let before = text[start..].chars().take_while(|c| {
        units += c.len_utf16();
        units <= number("character")
    });
    start + before.map(char::len_utf8).sum::<usize>()
}

/// `text` after the edits of an answer.
fn edited(text: &str, edits: &Value) -> String {
    let mut out = text.to_owned();
    let mut edits: Vec<&Value> = edits.as_array().expect("edits").iter().collect();
    edits.sort_by_key(|edit| offset(text, &edit["range"]["start"]));
    for edit in edits.into_iter().rev() {
        let span = offset(text, &edit["range"]["start"])..offset(text, &edit["range"]["end"]);
        out.replace_range(span, edit["newText"].as_str().expect("text"));
    }
    out
}

fn errors(text: &str) -> usize {
    let compilation = compile(Source { name: "p", text }, &CompileOptions::default());
    compilation.diagnostics.iter().filter(|found| found.is_error()).count()
}

#[test]
fn a_good_policy_has_no_diagnostics() {
    assert_eq!(errors(POLICY), 0);
    let (diagnostics, _) = asked(POLICY, &[]);
    assert_eq!(diagnostics, json!([]));
}

#[test]
fn one_mistake_is_one_diagnostic_and_its_correction_compiles() {
    for (wrong, right) in
        [("wfq {", "wqf {"), ("40gbps", "40Gbit/s"), ("80..443", "80-443"), ("fair of web", "fair of wb")]
    {
        let text = POLICY.replacen(wrong, right, 1);
        let whole = json!({"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}});
        let params = json!({"textDocument": {"uri": URI}, "range": whole, "context": {"diagnostics": []}});
        let (diagnostics, answers) = asked(&text, &[("textDocument/codeAction", params)]);
        let found: Vec<&Value> =
            diagnostics.as_array().expect("a list").iter().filter(|found| found["severity"] == 1).collect();
        assert_eq!(found.len(), 1, "{right}: {diagnostics}");
        let span = offset(&text, &found[0]["range"]["start"])..offset(&text, &found[0]["range"]["end"]);
        assert!(right.contains(&text[span.clone()]) && !span.is_empty(), "{right}: {span:?}");
        let action = &answers[0]["result"][0];
        assert_eq!((&action["kind"], &action["isPreferred"]), (&json!("quickfix"), &json!(true)), "{action}");
        let corrected = edited(&text, &action["edit"]["changes"][URI]);
        assert_eq!(errors(&corrected), 0, "{corrected}");
    }
    let text = POLICY.replacen("slow: 1", "slow: 1, slwo: 1", 1);
    let elsewhere = json!({"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}});
    let params = json!({"textDocument": {"uri": URI}, "range": elsewhere, "context": {"diagnostics": []}});
    assert_eq!(answered(&text, "textDocument/codeAction", params)["result"], json!([]), "of other lines");
}

#[test]
fn hover_tells_share_and_cost() {
    let about = |part: &str, by: usize| {
        let answer = answered(POLICY, "textDocument/hover", place(POLICY, part, by));
        answer["result"]["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    let web = about("fair of web", 9);
    for part in
        ["**class web**", "dport 80..443", "13.3", "root: weighted fair queueing, weight 3 of 9", "orders"]
    {
        assert!(web.contains(part), "{part}: {web}");
    }
    let limit = about("slow = ", 1);
    assert!(limit.contains("**limit slow**") && limit.contains("2gbps"), "{limit}");
    let edf = about("edf {", 2);
    assert!(
        edf.contains("`budget`: duration") && edf.contains("operations") && edf.contains("Earliest"),
        "{edf}"
    );
    let mine = about("mine(", 1);
    assert!(mine.contains("algorithm mine(w: weight = 1)") && mine.contains("`w`: weight"), "{mine}");
    let root = about("root = ", 0);
    assert!(root.contains("**node root**") && root.contains("cost: "), "{root}");
    assert_eq!(about("40gbps", 0), "");
}

#[test]
fn completion_offers_what_may_stand_there() {
    let labels = |text: &str, part: &str| -> Vec<String> {
        let answer = answered(text, "textDocument/completion", place(text, part, part.len()));
        let items = answer["result"].as_array().expect("a list").clone();
        items.iter().map(|item| item["label"].as_str().expect("a label").to_owned()).collect()
    };
    let has = |labels: &[String], wanted: &[&str]| {
        wanted.iter().all(|word| labels.iter().any(|label| label == word))
    };
    let nodes = labels(POLICY, "root = ");
    assert!(
        has(&nodes, &["wfq", "fair of", "web", "slow", "edf", "mine", "default"]) && !has(&nodes, &["dport"]),
        "{nodes:?}"
    );
    let tests = labels(POLICY, "class voice = ");
    assert!(has(&tests, &["tcp", "cgroup", "mark", "not"]) && !has(&tests, &["web"]), "{tests:?}");
    assert!(has(&tests, &["vlan", "dscp", "user", "cookie", "process"]), "{tests:?}");
    assert!(labels("class a = process ", "process ").is_empty());
    let joins = labels(POLICY, "cgroup \"/😀\" ");
    assert_eq!(joins, ["and", "or"]);
    assert!(has(&labels("class a = tcp\nbound 5 packets of ", "of "), &["a"]));
    assert!(has(&labels("", ""), &["class", "root", "algorithm"]));
}

#[test]
fn a_rename_changes_all_places_or_none() {
    let renamed = |part: &str, by: usize, new: &str| {
        let mut params = place(POLICY, part, by);
        params["newName"] = json!(new);
        answered(POLICY, "textDocument/rename", params)
    };
    for (part, by, new, old) in
        [("fair of web", 9, "shop", "web"), ("slow: 1", 4, "tight", "slow"), ("mine(", 0, "own", "mine")]
    {
        let text = edited(POLICY, &renamed(part, by, new)["result"]["changes"][URI]);
        assert!(text.contains(new) && !text.contains(old) && errors(&text) == 0, "{text}");
    }
    for (part, by, new, why) in [
        ("fair of web", 9, "bulk", "there is `bulk` already"),
        ("fair of web", 9, "of", "a word of the language"),
        ("fair of web", 9, "größe", "cannot be a name"),
        ("fair of web", 9, "infrastructure", "a meaning of its own"),
        ("root = ", 0, "top", "a meaning of its own"),
        ("mine(", 0, "edf", "there is `edf` already"),
        ("edf {", 0, "other", "is not defined in this text"),
        ("40gbps", 0, "x", "no name"),
    ] {
        let answer = renamed(part, by, new);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(why), "{new}: {answer}");
    }
    let wrong = "class a = tcp\nroot = priorty { a }\n";
    let mut params = place(wrong, "a =", 0);
    params["newName"] = json!("b");
    let answer = answered(wrong, "textDocument/rename", params);
    assert!(answer["error"]["message"].as_str().is_some_and(|why| why.contains("syntax errors")), "{answer}");
    let range = answered(POLICY, "textDocument/prepareRename", place(POLICY, "slow: 1", 2));
    assert_eq!(range["result"]["start"], position(POLICY, "slow: 1", 0));
}

#[test]
fn the_form_the_outline_and_definitions_are_those_of_the_text() {
    let params = json!({"textDocument": {"uri": URI}, "options": {"tabSize": 4, "insertSpaces": true}});
    let outline = json!({"textDocument": {"uri": URI}});
    let (_, answers) = asked(
        POLICY,
        &[
            ("textDocument/formatting", params.clone()),
            ("textDocument/documentSymbol", outline),
            ("textDocument/definition", place(POLICY, "fair of web", 9)),
        ],
    );
    let formatted = edited(POLICY, &answers[0]["result"]);
    assert_eq!(formatted, weft_policy::reformat(Source { name: "p", text: POLICY }).expect("readable"));
    assert_eq!(
        answered(&formatted, "textDocument/formatting", params.clone())["result"],
        json!([]),
        "a fixed point"
    );
    assert_eq!(answered("root = priorty { }", "textDocument/formatting", params)["result"], json!([]));
    let names: Vec<&str> =
        answers[1]["result"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["web", "bulk", "slow", "root", "voice", "rest", "mine"]);
    assert_eq!(answers[2]["result"]["range"]["start"], position(POLICY, "web = ", 0));
}

#[test]
fn a_change_replaces_the_text_and_a_closed_one_has_no_diagnostics() {
    let mut input =
        framed(&json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"capabilities": {}}}));
    let notify =
        |method: &str, params: Value| framed(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    let document =
        json!({"uri": URI, "languageId": "weft", "version": 1, "text": "root = priorty { default }\n"});
    input += &notify("textDocument/didOpen", json!({"textDocument": document}));
    let changes = json!([{"text": "nonsense"}, {"text": "root = default\n"}]);
    input += &notify(
        "textDocument/didChange",
        json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes}),
    );
    input += &notify("textDocument/didClose", json!({"textDocument": {"uri": URI}}));
    input += &framed(&json!({"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover",
        "params": {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}}));
    let (messages, ended) = served(&input);
    assert!(matches!(ended, Err(ServeError::Abandoned)), "{ended:?}");
    let counts: Vec<usize> = messages
        .iter()
        .filter_map(|message| Some(message["params"]["diagnostics"].as_array()?.len()))
        .collect();
    assert_eq!(counts, [1, 0, 0], "{messages:?}");
    assert!(
        messages[4]["error"]["message"].as_str().is_some_and(|why| why.contains("is not open")),
        "{messages:?}"
    );
}

#[test]
fn what_is_no_message_ends_the_server_with_one_line() {
    for wrong in [
        "Content-Length: 18446744073709551615\r\n\r\n{}",
        "Content-Length: 99999999999999999999\r\n\r\n{}",
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length: 5\r\n\r\n{}",
        "Content-Length: 2\r\n\r\n{]",
        "Content-Length: 4\r\n\r\nnull",
        "Content-Type: x\r\n\r\n{}",
        "GET / HTTP/1.1",
        "\r\n\r\n",
        "",
        &"[".repeat(3000),
        &format!("Content-Length: 9000\r\n\r\n{}", "[".repeat(9000)),
    ] {
        let error = served(wrong).1.expect_err("an error").to_string();
        assert!(!error.contains('\n') && error.len() < 300, "{error}");
    }
}

#[test]
fn requests_out_of_order_and_with_wrong_parameters_are_errors_and_no_end() {
    let request = |id: u32, method: &str, params: Value| {
        framed(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let mut input = request(1, "textDocument/hover", json!({}));
    input += &request(2, "initialize", json!({"capabilities": {}}));
    input += &request(3, "initialize", json!({"capabilities": {}}));
    input += &request(4, "textDocument/hover", json!({"position": -1}));
    input += &request(5, "workspace/nonsense", Value::Null);
    input += &framed(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": 5}));
    input += &framed(&json!({"jsonrpc": "2.0", "id": 9, "result": null}));
    input += &request(6, "shutdown", Value::Null);
    input += &request(7, "textDocument/hover", json!({}));
    input += &framed(&json!({"jsonrpc": "2.0", "method": "exit"}));
    let (messages, ended) = served(&input);
    ended.expect("an end in order");
    let codes: Vec<Option<i64>> = messages.iter().map(|message| message["error"]["code"].as_i64()).collect();
    let expected = [Some(-32002), None, Some(-32600), Some(-32602), Some(-32601), None, Some(-32600)];
    assert_eq!(codes, expected, "{messages:?}");
}
