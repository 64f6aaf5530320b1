//! Hashes.

use crate::common::{Server, converse};

#[test]
fn what_is_within_a_hash() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("hset h a 1 b 2 a 3", "2"),
            ("hset h a", "-ERR wrong number of arguments for 'hset' command"),
            ("hset h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
            ("hmget h a none b", "[3 nil 2]"),
            ("hmget none a b", "[nil nil]"),
            ("hincrby h a 9223372036854775807", "-ERR increment or decrement would overflow"),
            ("hincrby h a x", "-ERR value is not an integer or out of range"),
            ("hincrby h n -5", "-5"),
            ("hincrbyfloat h n 5.25", "0.25"),
            ("hset h f 0.1", "1"),
            ("hincrbyfloat h f 0.2", "0.3"),
            ("hset h f inf", "0"),
            ("hincrbyfloat h f -inf", "-ERR value is NaN or Infinity"),
            ("hincrbyfloat h f 1", "-ERR increment would produce NaN or Infinity"),
            ("hdel h f", "1"),
            ("hincrby h n 1", "-ERR hash value is not an integer"),
            ("hset h text x", "1"),
            ("hincrbyfloat h text 1", "-ERR hash value is not a float"),
            ("hincrbyfloat h new inf", "-ERR value is NaN or Infinity"),
            ("hexists h new", "0"),
            // A command that fails makes no key.
            ("hincrby none a x", "-ERR value is not an integer or out of range"),
            ("exists none", "0"),
            (
                "hrandfield h -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("hrandfield h 4611686018427387904 withvalues", "-ERR value is out of range"),
            ("hrandfield h 1 values", "-ERR syntax error"),
            ("hrandfield none -5", "[]"),
            ("hscan h x", "-ERR invalid cursor"),
            // Without the key, the server does not check the options.
            ("hscan none 0 nonsense", "[0 []]"),
            ("hscan h 0 nonsense", "-ERR syntax error"),
            ("hscan h 0 match t*", "[0 [text x]]"),
            ("set s x", "OK"),
            ("hset s a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("hdel h a b n text a", "4"),
            ("exists h", "0"),
            ("hello 3", "[server redis version 7.0.15 proto 3 id 1 mode standalone role master modules []]"),
            ("hset h a 1", "1"),
            ("hgetall h", "[a 1]"),
            ("hrandfield h -2 withvalues", "[[a 1] [a 1]]"),
        ],
    );
}

/// Redis keeps this order, too, while a hash is small.
#[test]
fn fields_of_a_small_hash_come_in_the_order_of_insertion() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    let fields: Vec<String> = (0..27).map(|i| format!("field{i}")).collect();
    for field in &fields {
        client.ask(&format!("hset h {field} 1"));
    }
    let expected = format!("[{}]", fields.join(" "));
    assert_eq!(client.ask("hkeys h"), expected);
    client.ask("copy h other");
    assert_eq!(client.ask("hkeys other"), expected);
}

#[test]
fn hashes_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    (0..2000).for_each(|i| client.send(&format!("hset h field{i} {i}")));
    (0..2000).for_each(|_| assert_eq!(client.reply(), "1"));
    (0..2000).step_by(2).for_each(|i| client.send(&format!("hdel h field{i}")));
    (0..1000).for_each(|_| assert_eq!(client.reply(), "1"));
    drop(server);
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.ask("hlen h"), "1000");
    for i in 0..2000 {
        let expected = if i % 2 == 0 { "nil".to_owned() } else { i.to_string() };
        assert_eq!(client.ask(&format!("hget h field{i}")), expected);
    }
}
