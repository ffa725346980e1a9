//! The Rust client of the protocol's own people.

use crate::support::TestEnv;
use rmcp::model::ProtocolVersion;
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;

/// Without a handshake, in the newest revision.
pub(crate) fn the_new_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// Everything a client is shown: tools, and the results of some calls.
pub(crate) fn seen(
    env: &TestEnv,
    command: &[String],
    mode: ClientLifecycleMode,
    calls: &[(&str, Value)],
) -> Value {
    let mut process = env.command(&command[0]);
    process.args(&command[1..]);
    let look = async {
        let builder =
            TokioChildProcess::builder(tokio::process::Command::from(process)).stderr(Stdio::null());
        let (transport, _) = builder.spawn().expect("the server starts");
        let client = ().serve_with_lifecycle(transport, mode).await.expect("they agree on an era");
        let tools = client.list_all_tools().await.expect("a list");
        let mut results = Vec::new();
        for (name, arguments) in calls {
            let params =
                serde_json::from_value(json!({ "name": name, "arguments": arguments })).expect("a call");
            results.push(match client.call_tool(params).await {
                Ok(result) => serde_json::to_value(result).expect("JSON"),
                Err(error) => json!({ "error": error.to_string() }),
            });
        }
        client.cancel().await.expect("it ends");
        json!({ "tools": tools, "results": results })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let patient = async { tokio::time::timeout(Duration::from_secs(60), look).await };
    runtime.block_on(patient).expect("an answer within a minute")
}
