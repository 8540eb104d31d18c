//! The server's side: from the bytes of a message to a request, or to the answer that needs no daemon.

use crate::error::ControlError;
use crate::interface::Request;
use crate::wire::{self, Call, CallMode, Continues};
use crate::{DEFINITION, INTERFACE, SERVICE_DEFINITION};
use serde::Serialize;
use serde_json::{Value, json};

/// The interface that every varlink service has.
const SERVICE: &str = "org.varlink.service";

/// The meaning of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// A call for the daemon.
    Request {
        /// The call.
        request: Request,
        /// The number of answers expected.
        mode: CallMode,
    },
    /// A call that is answered already: about the service itself, or a wrong one.
    Answer(Vec<u8>),
    /// A wrong call without an answer.
    Silent,
    /// No call. The connection ends after this answer.
    Close(Vec<u8>),
}

/// The reply of `GetInfo`.
#[derive(Serialize)]
struct Info {
    vendor: &'static str,
    product: &'static str,
    version: &'static str,
    url: &'static str,
    interfaces: [&'static str; 2],
}

/// Reads a message without its NUL.
pub fn receive(frame: &[u8]) -> Received {
    let call: Call = match serde_json::from_slice(frame) {
        Ok(call) => call,
        Err(error) => {
            let message = format!("the message is no varlink call: {error}");
            return Received::Close(wire::error(&ControlError::Failed { message }));
        }
    };
    let mode = mode(&call);
    match read(call, mode) {
        Ok(received) => received,
        Err(_) if mode == CallMode::Oneway => Received::Silent,
        Err(error) => Received::Answer(wire::error(&error)),
    }
}

/// The number of answers that a call expects. `oneway` wins over `more`.
fn mode(call: &Call) -> CallMode {
    match (call.oneway, call.more) {
        (Some(true), _) => CallMode::Oneway,
        (_, Some(true)) => CallMode::More,
        _ => CallMode::Once,
    }
}

fn read(call: Call, mode: CallMode) -> Result<Received, ControlError> {
    if call.upgrade == Some(true) {
        return Err(ControlError::InvalidParameter { parameter: "upgrade".to_owned() });
    }
    let (interface, method) = call.method.rsplit_once('.').unwrap_or(("", call.method.as_str()));
    let parameters = call.parameters.unwrap_or_default();
    match interface {
        INTERFACE => {
            let request = Request::read(method, parameters)?;
            if matches!(request, Request::Monitor(_)) && mode != CallMode::More {
                return Err(ControlError::ExpectedMore {});
            }
            Ok(Received::Request { request, mode })
        }
        SERVICE => {
            let answer = about_the_service(method, parameters.get("interface"))?;
            Ok(if mode == CallMode::Oneway { Received::Silent } else { Received::Answer(answer) })
        }
        _ => Err(ControlError::InterfaceNotFound { interface: interface.to_owned() }),
    }
}

/// Answers a call of `org.varlink.service`.
fn about_the_service(method: &str, interface: Option<&Value>) -> Result<Vec<u8>, ControlError> {
    match method {
        "GetInfo" => {
            let info = Info {
                vendor: "weftline",
                product: "weft",
                version: env!("CARGO_PKG_VERSION"),
                url: "",
                interfaces: [INTERFACE, SERVICE],
            };
            Ok(wire::reply(&info, Continues::No))
        }
        "GetInterfaceDescription" => {
            let description = match interface.and_then(Value::as_str) {
                Some(INTERFACE) => DEFINITION,
                Some(SERVICE) => SERVICE_DEFINITION,
                Some(other) => return Err(ControlError::InterfaceNotFound { interface: other.to_owned() }),
                None => return Err(ControlError::InvalidParameter { parameter: "interface".to_owned() }),
            };
            Ok(wire::reply(&json!({ "description": description }), Continues::No))
        }
        _ => Err(ControlError::MethodNotFound { method: format!("{SERVICE}.{method}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(frame: &str) -> Value {
        match receive(frame.as_bytes()) {
            Received::Answer(bytes) => {
                serde_json::from_slice(bytes.strip_suffix(b"\0").expect("NUL")).expect("JSON")
            }
            other => panic!("{frame}: {other:?}"),
        }
    }

    #[test]
    fn the_service_describes_itself() {
        let info = answer(r#"{"method":"org.varlink.service.GetInfo","parameters":null}"#);
        assert_eq!(info["parameters"]["interfaces"], json!(["io.weft", "org.varlink.service"]));
        for interface in ["io.weft", "org.varlink.service"] {
            let call = json!({ "method": "org.varlink.service.GetInterfaceDescription",
                "parameters": { "interface": interface } });
            let text =
                answer(&call.to_string())["parameters"]["description"].as_str().expect("text").to_owned();
            assert!(text.contains(&format!("interface {interface}\n")), "{text}");
        }
    }

    #[test]
    fn wrong_calls_have_the_errors_of_varlink() {
        for (call, error) in [
            (r#"{"method":"Status"}"#, "InterfaceNotFound"),
            (r#"{"method":"org.example.Status"}"#, "InterfaceNotFound"),
            (r#"{"method":"io.weft.status"}"#, "MethodNotFound"),
            (r#"{"method":"org.varlink.service.Stop"}"#, "MethodNotFound"),
            (r#"{"method":"org.varlink.service.GetInterfaceDescription"}"#, "InvalidParameter"),
            (r#"{"method":"io.weft.Status","parameters":{"a":1}}"#, "InvalidParameter"),
            (r#"{"method":"io.weft.Status","upgrade":true}"#, "InvalidParameter"),
            (r#"{"method":"io.weft.Monitor"}"#, "ExpectedMore"),
        ] {
            assert_eq!(answer(call)["error"], format!("org.varlink.service.{error}"), "{call}");
            let oneway = call.replacen('{', r#"{"oneway":true,"#, 1);
            assert_eq!(receive(oneway.as_bytes()), Received::Silent, "{oneway}");
        }
    }

    #[test]
    fn no_call_ends_the_connection() {
        for frame in
            ["", "{", "[]", "7", "{}", r#"{"method":7}"#, r#"{"method":"io.weft.Status","parameters":[]}"#]
        {
            assert!(matches!(receive(frame.as_bytes()), Received::Close(_)), "{frame}");
        }
        assert!(matches!(receive(&[0xff, 0xfe]), Received::Close(_)));
    }
}
