//! Connections whose bytes pass untouched, because all four verbs are held.
//!
//! Answers for seeing that they are what they are allowed to be before they pass. It leaves requests of HTTP, which are
//! read even so, to the flow.
//! Invariant: TLS passes only when its greeting names the host it goes to, and nothing passes where it leads to an address
//! at which not all four verbs are held.

use super::flow::{Aim, Ended, Refused};
use super::inspect::timely;
use super::relay::{Meter, Way, both};
use super::service::Service;
use super::sniff::{SETTINGS, Start, TLS, greeting, greets_as_http2, is_nameless, start};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port on which servers of many hosts expect TLS, and take forms of it that name none.
const HTTPS: u16 = 443;

/// How long a client that began something that may be a request is waited for before bytes pass untouched.
const UNDECIDED: Duration = Duration::from_secs(5);

/// How long a client is waited for that may begin a request, where a proxy further out is asked for it.
const UNSAID: Duration = Duration::from_secs(1);

impl Service {
    /// With all four verbs: dials at once, and looks at what the client says first, if it speaks first.
    /// Where a secret is put into requests (`opened`), TLS is opened; what is neither TLS nor HTTP passes all the same.
    pub(super) async fn carry_whole(
        self: &Arc<Self>,
        stream: &mut Option<TcpStream>,
        aim: &Aim,
        meter: &Arc<Meter>,
        opened: bool,
    ) -> Ended {
        let mut first = Vec::new();
        if let Some(client) = stream.as_mut().filter(|_| self.proxy_to(&aim.target).is_some()) {
            // The proxy further out may refuse a connection where it takes requests.
            let word = tokio::time::timeout(UNSAID, self.first_word(client, &mut first)).await;
            if matches!(word, Ok(Ok(Start::Http1)))
                && let Some(client) = stream.take()
            {
                return self.carry_http(client, first, aim, meter, None).await;
            }
        }
        let (mut outer, judged) = self.reach(&aim.target).await?;
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let mut greeted = false;
        let begun = loop {
            match start(&first) {
                Start::More => {}
                begun => break begun,
            }
            let undecided = !first.is_empty();
            let (mut room, mut said) = ([0; 4096], [0; SETTINGS]);
            tokio::select! {
                biased;
                read = client.read(&mut room) => match read? {
                    0 => break Start::Other,
                    read => first.extend(&room[..read]),
                },
                peeked = outer.peek(&mut said), if !greeted => match peeked? {
                    // Both sides of HTTP/2 speak at once, and whose word comes first says nothing.
                    SETTINGS if greets_as_http2(&said) => greeted = true,
                    _ => break Start::Other,
                },
                () = tokio::time::sleep(UNDECIDED), if undecided => break Start::More,
            }
        };
        match begun {
            Start::Tls if opened => {
                let Some(client) = stream.take() else { return Ok("nothing") };
                self.inspect(stream, client, first, aim, meter, Some((outer, judged))).await
            }
            Start::Tls => self.carry_tls_untouched(stream, first, aim, meter, Some((outer, judged))).await,
            Start::Http1 => {
                let Some(client) = stream.take() else { return Ok("nothing") };
                self.carry_http(client, first, aim, meter, Some((outer, judged))).await
            }
            Start::Http2 => {
                let Some(client) = stream.take() else { return Ok("nothing") };
                self.carry_http_two(client, first, aim, meter, (outer, judged)).await
            }
            Start::Other | Start::More => {
                self.check_whole(&aim.target, judged)?;
                self.check_plain(begun, &first, aim)?;
                outer.write_all(&first).await?;
                meter.count(Way::Out, first.len());
                let Some(client) = stream.take() else { return Ok("nothing") };
                both(client, outer, meter).await?;
                Ok("untouched")
            }
        }
    }

    /// TLS that passes untouched once its greeting names the host it goes to.
    pub(super) async fn carry_tls_untouched(
        &self,
        stream: &mut Option<TcpStream>,
        mut first: Vec<u8>,
        aim: &Aim,
        meter: &Meter,
        reached: Option<(TcpStream, Option<IpAddr>)>,
    ) -> Ended {
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let said = timely(greeting(client, &mut first)).await?;
        self.check_name(&said, aim)?;
        let (mut outer, judged) = match reached {
            Some(reached) => reached,
            None => self.reach(&aim.target).await?,
        };
        self.check_whole(&aim.target, judged)?;
        outer.write_all(&first).await?;
        meter.count(Way::Out, first.len());
        let Some(client) = stream.take() else { return Ok("nothing") };
        both(client, outer, meter).await?;
        Ok("tls untouched")
    }

    /// What passes as something else than TLS must not become TLS that nobody asked for its name: ssh and databases begin
    /// in their own ways, whatever the port.
    fn check_plain(&self, begun: Start, first: &[u8], aim: &Aim) -> Result<(), Refused> {
        let halting = begun == Start::More && first.starts_with(&[TLS]);
        let disguised = aim.target.port == Some(HTTPS) && is_nameless(first);
        if !halting && !disguised {
            return Ok(());
        }
        self.report.malformed(
            "connection",
            Some(&aim.target),
            "TLS whose greeting cannot be read for a name",
        );
        Err(Refused::Told)
    }
}
