//! Draws graphs in the language of Graphviz.

use std::fmt::Write;

use super::collect::Graph;
use super::svg::escaped;

pub fn draw(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph heap {\n  rankdir=LR; ranksep=0.9; nodesep=0.25;\n  \
         node [shape=plain, fontname=\"monospace\", fontsize=10];\n  edge [arrowsize=0.6, color=\"#6b7785\"];\n",
    );
    for (number, node) in graph.nodes.iter().enumerate() {
        let title = escaped(&node.title);
        let Some(offset) = node.offset else {
            let _ = writeln!(
                out,
                "  n{number} [shape=box, style=\"rounded,filled\", fillcolor=\"#dbe7ff\", label=<<B>{title}</B>>];"
            );
            for (row, to) in node.rows.iter().filter_map(|row| Some((row, row.to?))) {
                let _ = writeln!(out, "  n{number} -> n{to} [label=<{}>];", escaped(&row.name));
            }
            continue;
        };
        let _ = write!(
            out,
            "  n{number} [label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"3\" COLOR=\"#6b7785\">\
             <TR><TD PORT=\"head\" COLSPAN=\"2\" BGCOLOR=\"#e8edf3\"><B>{title}</B> <FONT COLOR=\"#6b7785\">{offset:#x}</FONT></TD></TR>"
        );
        for (i, row) in node.rows.iter().enumerate() {
            let value = match (row.to, row.is_cut) {
                (Some(_), _) => "●".to_owned(),
                (None, true) => format!("⇢ {}", escaped(&row.value)),
                (None, false) => escaped(&row.value),
            };
            let _ = write!(
                out,
                "<TR><TD ALIGN=\"LEFT\">{}</TD><TD ALIGN=\"RIGHT\" PORT=\"r{i}\">{value}</TD></TR>",
                escaped(&row.name)
            );
        }
        out.push_str("</TABLE>>];\n");
        for (i, row) in node.rows.iter().enumerate() {
            if let Some(to) = row.to {
                let _ = writeln!(out, "  n{number}:r{i}:e -> n{to}:head:w;");
            }
        }
    }
    if graph.left_out > 0 {
        let _ = writeln!(out, "  label=\"{} more objects are not shown\";", graph.left_out);
    }
    out.push_str("}\n");
    out
}
