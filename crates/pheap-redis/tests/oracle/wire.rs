//! A connection whose server may be gone at any moment.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

/// A command: its words.
pub(crate) type Words = Vec<String>;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(String),
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn ok() -> Reply {
        Reply::Text("OK".into())
    }

    pub(crate) fn texts<T: ToString>(texts: impl IntoIterator<Item = T>) -> Reply {
        Reply::List(texts.into_iter().map(|text| Reply::Text(text.to_string())).collect())
    }

    /// Returns the elements of a list. A null has none.
    pub(crate) fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            Reply::Nil => &[],
            other => panic!("not a list: {other:?}"),
        }
    }

    pub(crate) fn strings(&self) -> Vec<String> {
        self.list().iter().map(|reply| reply.text().to_owned()).collect()
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Reply::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub(crate) fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            Reply::Text(text) => text.parse().unwrap_or_else(|_| panic!("not a number: {text}")),
            Reply::Nil => 0,
            other => panic!("not a number: {other:?}"),
        }
    }
}

/// A connection. An error of its methods means that the server is gone.
pub(crate) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire(BufReader::new(stream))
    }

    pub(crate) fn send<'w>(&mut self, commands: impl IntoIterator<Item = &'w Words>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
        }
        self.0.get_mut().write_all(&bytes)
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else { return Err(ErrorKind::UnexpectedEof.into()) };
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("no reply: {line:?}"));
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()),
            "$" | "*" if number() < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Text(String::from_utf8(bytes).expect("only such strings were sent"))
            }
            "*" => Reply::List((0..number()).map(|_| self.reply()).collect::<io::Result<_>>()?),
            _ => panic!("no reply: {line:?}"),
        })
    }

    pub(crate) fn ask(&mut self, words: &Words) -> io::Result<Reply> {
        self.send([words])?;
        self.reply()
    }
}

/// Splits a line at spaces.
pub(crate) fn words(line: &str) -> Words {
    line.split(' ').map(str::to_owned).collect()
}
