//! What a server says on its stderr, passed on byte for byte.
//!
//! Answers for how much of it is passed on. It leaves the writing to [`Aside`].
//! Invariant: the server never waits for whoever should read it; what is left out is counted and told.

use super::aside::Aside;
use super::gate::Teller;
use crate::audit::Rate;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Bytes that are passed on at once.
const AT_ONCE: u32 = 1 << 20;
/// Bytes that are passed on a second after that.
const A_SECOND: u32 = 256 << 10;
/// As much is read at a time.
const PIECE: usize = 16 << 10;

/// Passes on what is said from now on; whoever waits for what is returned waits until all is said.
pub(super) fn pass_on(from: File, aside: Aside, teller: Arc<dyn Teller>) -> Receiver<()> {
    let (said, all_said) = channel();
    std::thread::spawn(move || {
        relay(from, &aside, teller.as_ref());
        drop(said);
    });
    all_said
}

fn relay(mut from: impl Read, aside: &Aside, teller: &dyn Teller) {
    let mut rate = Rate::new(AT_ONCE, A_SECOND);
    let mut piece = vec![0; PIECE];
    let note = |bytes: u64| {
        if bytes > 0 {
            teller
                .tell(&format!("{bytes} bytes of the server's stderr were left out, for there was too much"));
        }
    };
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                if let Some(left_out) = rate.admit_of(u32::try_from(length).unwrap_or(u32::MAX)) {
                    note(left_out);
                    aside.say(piece[..length].to_vec());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    note(rate.left_out());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Mutex;
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<String>>);

    impl Teller for Told {
        fn tell(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn little_passes_as_it_is_and_of_too_much_a_part() {
        let (kept, told) = (Kept::default(), Told::default());
        let aside = Aside::new(kept.clone());
        let said = b"\x1b[1mcolours\xff and no end of line";
        relay(&said[..], &aside, &told);
        aside.finish(Duration::from_secs(20));
        assert_eq!(*kept.0.lock().unwrap(), said);
        assert!(told.0.lock().unwrap().is_empty());
        let flood = vec![b'y'; 64 << 20];
        relay(flood.as_slice(), &aside, &told);
        let told = told.0.lock().unwrap();
        let number = |line: &String| line.split(' ').next().unwrap().parse::<usize>().unwrap();
        let left_out: usize = told.iter().map(number).sum();
        assert!(left_out > 48 << 20 && left_out < 64 << 20, "{told:?}");
    }
}
