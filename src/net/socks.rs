//! SOCKS version 5: connecting by name, without credentials.
//!
//! Answers for the bytes. Invariant: a name with bytes that no host name has is not asked for.

use crate::capability::{Host, Target};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(crate) const GRANTED: u8 = 0;
pub(crate) const NOT_ALLOWED: u8 = 2;
pub(crate) const UNREACHABLE: u8 = 4;
const COMMAND_UNKNOWN: u8 = 7;
const ADDRESS_UNKNOWN: u8 = 8;

/// Reads what is asked for, or the number of the refusal.
pub(crate) async fn read<S>(stream: &mut S) -> io::Result<Result<Target, u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let [version, count] = [stream.read_u8().await?, stream.read_u8().await?];
    let mut methods = vec![0; usize::from(count)];
    stream.read_exact(&mut methods).await?;
    if version != 5 || !methods.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.write_all(&[5, 0]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    let host = match kind {
        1 => Some(Host::Ip(Ipv4Addr::from(stream.read_u32().await?).into())),
        4 => Some(Host::Ip(std::net::IpAddr::V6(Ipv6Addr::from(stream.read_u128().await?)).to_canonical())),
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            let text = String::from_utf8(name).ok().filter(|name| !name.contains('@'));
            text.and_then(|name| Host::parse(&name).ok())
        }
        _ => return Ok(Err(ADDRESS_UNKNOWN)),
    };
    let port = stream.read_u16().await?;
    if version != 5 || command != 1 {
        return Ok(Err(COMMAND_UNKNOWN));
    }
    Ok(match host {
        Some(host) if port > 0 => Ok(Target { host, port: Some(port) }),
        Some(_) | None => Err(NOT_ALLOWED),
    })
}

/// The bytes of an answer.
pub(crate) fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(bytes: &[u8]) -> io::Result<Result<Target, u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(1024);
            far.write_all(bytes).await.unwrap();
            far.shutdown().await.unwrap();
            read(&mut near).await
        })
    }

    fn by_name(command: u8, name: &[u8]) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 5, command, 0, 3, length][..], name, &[1, 187]].concat()
    }

    #[test]
    fn a_name_is_asked_for() {
        let target = asked(&by_name(1, b"API.example")).unwrap().unwrap();
        assert_eq!(target.to_string(), "api.example:443");
    }

    #[test]
    fn other_commands_and_odd_names_are_refused() {
        assert_eq!(asked(&by_name(2, b"api.example")).unwrap(), Err(COMMAND_UNKNOWN));
        assert_eq!(asked(&by_name(3, b"api.example")).unwrap(), Err(COMMAND_UNKNOWN));
        for odd in [&b"evil.example\0.api.example"[..], b"a b", b"x@y", b"", b"0177.0.0.1", b"\xff"] {
            assert_eq!(asked(&by_name(1, odd)).unwrap(), Err(NOT_ALLOWED), "{odd:?}");
        }
        assert!(asked(&[4, 1, 0, 80, 1, 2, 3, 4, 0]).is_err());
        assert!(asked(&[5, 1, 2]).is_err());
        assert!(asked(&[5]).is_err());
    }

    #[test]
    fn a_mapped_address_is_the_address() {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 4];
        bytes.extend("::ffff:127.0.0.3".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([0, 80]);
        assert_eq!(asked(&bytes).unwrap().unwrap().to_string(), "127.0.0.3:80");
    }
}
