//! The report: all outcomes on one page that needs nothing else.

use crate::chart;
use crate::experiment::{Cell, ExperimentError, Outcome, Sheet, claims, show};
use crate::experiments::charts;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#1b1b1b;--faint:#666;--line:#d5d5d5;--mark:#fff4ce}\
@media(prefers-color-scheme:dark){:root{--ground:#161616;--text:#e6e6e6;--faint:#a0a0a0;\
--line:#3a3a3a;--mark:#4a3f12}svg{filter:invert(.91) hue-rotate(180deg)}}\
body{background:var(--ground);color:var(--text);font:15px/1.5 system-ui,sans-serif;\
max-width:70em;margin:auto;padding:1em}\
h1,h2,h3{line-height:1.25}h3{margin-top:2em}figure{margin:1em 0}h2{margin-top:2.5em;border-top:1px solid var(--line);padding-top:1em}\
.faint,figcaption{color:var(--faint)}.quick{background:var(--mark);padding:.5em 1em}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}\
th,td{padding:.25em .8em;border-bottom:1px solid var(--line);text-align:left;vertical-align:bottom}\
td{white-space:nowrap}td.n,th.n{text-align:right}td.t{min-width:15em;white-space:normal}\
svg{max-width:100%;min-width:40em;height:auto}\
@media print{:root{--ground:#fff;--text:#000;--faint:#444;--line:#bbb;--mark:#eee}\
body{font-size:10px;max-width:none}svg{filter:none;min-width:0}table{font-size:8px}td,td.n,th.n{white-space:normal}\
.wide{overflow:visible}figure,tr,li{break-inside:avoid}h2,h3,thead{break-after:avoid}}";

/// Words of more bytes than this take several lines of a table.
const SENTENCE: usize = 24;

/// An experiment that could not be made, and why not.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// Its name on the command line.
    pub experiment: String,
    /// In words.
    pub why: String,
}

/// A page with all of these.
///
/// # Errors
/// [`ExperimentError::Plot`].
pub fn page(outcomes: &[Outcome], left_out: &[LeftOut]) -> Result<String, ExperimentError> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Longshore: the papers measured again</title><style>{STYLE}</style></head><body>\n\
         <h1>The papers measured again</h1>\n"
    );
    if let Some(first) = outcomes.first() {
        let machine = &first.machine;
        let _ = writeln!(
            page,
            "<p>Longshore {} on {}, {} processors, Linux {}. The kernel's ends use {}.{}</p>",
            env!("CARGO_PKG_VERSION"),
            text(&machine.processor),
            machine.processors,
            text(&machine.kernel),
            text(&machine.congestion_control),
            measured(outcomes)
        );
    }
    page.push_str(
        "<p class=\"faint\">Made by <code>longshore measure all</code>. Medians stand with \
                   the least and the most of their runs; counts say so.</p>\n<ul>\n",
    );
    for outcome in outcomes {
        let name = text(&outcome.experiment);
        let _ = writeln!(
            page,
            "<li><a href=\"#{name}\">{name}</a>: {}</li>",
            text(&outcome.paper)
        );
    }
    let claims = claims_of(outcomes);
    if !claims.rows.is_empty() {
        page.push_str("<li><a href=\"#claims\">claims</a>: what holds of the papers</li>\n");
    }
    page.push_str("</ul>\n");
    if !left_out.is_empty() {
        page.push_str("<p>Left out, since they could not be measured here:</p>\n<ul>\n");
        for LeftOut { experiment, why } in left_out {
            let (name, why) = (text(experiment), text(why));
            let _ = writeln!(page, "<li>{name}: {why}</li>");
        }
        page.push_str("</ul>\n");
    }
    for outcome in outcomes {
        section(&mut page, outcome)?;
    }
    if !claims.rows.is_empty() {
        page.push_str("<h2 id=\"claims\">claims</h2>\n");
        table(&mut page, &claims);
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

/// When the figures were measured: the first and the last, where they are not of one minute.
fn measured(outcomes: &[Outcome]) -> String {
    let times = || outcomes.iter().map(|o| o.measured).filter(|at| *at != 0);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return String::new();
    };
    let (first, last) = (minute(first), minute(last));
    if first == last {
        format!(" Measured {first}.")
    } else {
        format!(" Measured {first} to {last}.")
    }
}

/// A time in seconds since 1970, to the minute.
fn minute(seconds: u64) -> String {
    let time = i64::try_from(seconds).map(jiff::Timestamp::from_second);
    match time {
        Ok(Ok(time)) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        // A file that somebody has changed.
        Ok(Err(_)) | Err(_) => "at no time".to_owned(),
    }
}

/// The claims that these outcomes decide.
fn claims_of(outcomes: &[Outcome]) -> Sheet {
    let columns = ["paper", "claim", "there", "here", "verdict"].map(|name| (name, ""));
    let mut sheet = Sheet::new(
        "claims",
        "What the papers claim, and what holds here",
        "from the figures on this page",
        &columns,
    );
    for claim in claims::judge(outcomes) {
        let paper = claim.paper.to_owned();
        sheet.row([paper, claim.says, claim.theirs, claim.here, claim.verdict].map(Cell::Text));
    }
    sheet
}

fn section(page: &mut String, outcome: &Outcome) -> Result<(), ExperimentError> {
    let name = text(&outcome.experiment);
    let _ = writeln!(
        page,
        "<h2 id=\"{name}\">{name}</h2>\n<p class=\"faint\">{}</p>",
        text(&outcome.paper)
    );
    if outcome.quick {
        page.push_str(
            "<p class=\"quick\">Short runs (--quick): for a look, not for the record.</p>\n",
        );
    }
    for chart in charts(outcome) {
        let title = text(&chart.title);
        let drawing = chart::render(&[chart])?;
        let _ = writeln!(
            page,
            "<figure class=\"wide\" role=\"img\" aria-label=\"{title}\">{drawing}</figure>"
        );
    }
    for sheet in &outcome.sheets {
        table(page, sheet);
    }
    if !outcome.left_out.is_empty() {
        page.push_str("<h3>Not to be had here</h3>\n<ul>\n");
        for reason in &outcome.left_out {
            let _ = writeln!(page, "<li>{}</li>", text(reason));
        }
        page.push_str("</ul>\n");
    }
    Ok(())
}

fn table(page: &mut String, sheet: &Sheet) {
    let _ = writeln!(
        page,
        "<h3>{}</h3>\n<p class=\"faint\">{}</p>\n<div class=\"wide\"><table><thead><tr>",
        text(&sheet.title),
        text(&sheet.basis)
    );
    for (at, column) in sheet.columns.iter().enumerate() {
        let is_words = |row: &Vec<Cell>| matches!(row[at], Cell::Text(_));
        let class = if column.unit.is_empty() || sheet.rows.iter().any(is_words) {
            ""
        } else {
            " class=\"n\""
        };
        let _ = write!(page, "<th{class}>{}", text(&column.name));
        if !column.unit.is_empty() {
            let _ = write!(
                page,
                "<br><span class=\"faint\">{}</span>",
                text(&column.unit)
            );
        }
        page.push_str("</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in &sheet.rows {
        page.push_str("<tr>");
        for cell in row {
            let class = match cell {
                // On a narrow screen a table is moved, and a sentence in it stays readable.
                Cell::Text(words) if words.len() > SENTENCE => " class=\"t\"",
                Cell::Text(_) => "",
                _ => " class=\"n\"",
            };
            let _ = write!(page, "<td{class}>{}</td>", text(&show::cell(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Text as HTML has it; what stands between backticks is code.
fn text(plain: &str) -> String {
    let plain = plain
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;");
    if !plain.matches('`').count().is_multiple_of(2) {
        return plain;
    }
    let mut html = String::with_capacity(plain.len());
    for (at, piece) in plain.split('`').enumerate() {
        match at % 2 {
            0 => html.push_str(piece),
            _ => {
                let _ = write!(html, "<code>{piece}</code>");
            }
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_backtick_is_no_code() {
        assert_eq!(text("a ` b"), "a ` b");
        assert_eq!(text("`a` < `b`"), "<code>a</code> &lt; <code>b</code>");
    }

    #[test]
    fn times_are_dates_to_the_minute() {
        assert_eq!(minute(951_868_799), "2000-02-29 23:59 UTC");
        assert_eq!(minute(u64::MAX), "at no time");
        assert_eq!(minute(1 << 62), "at no time");
    }

    #[test]
    fn a_page_has_all_and_needs_nothing_else() {
        let mut sheet = Sheet::new("s", "A <sheet>", "exact", &[("what", ""), ("n", "number")]);
        sheet.row([Cell::from("a & b"), Cell::Count(7)]);
        let mut outcome = Outcome::new("host", "2005", true);
        outcome.sheets.push(sheet);
        outcome.left_out.push("no device".to_owned());
        outcome
            .left_out
            .push("see `longshore measure bus`".to_owned());
        let failed = LeftOut {
            experiment: "cpu".to_owned(),
            why: "perf is not installed".to_owned(),
        };
        outcome.measured = 1_798_761_599;
        let mut path = Outcome::new("path", "1989", false);
        path.measured = 1_798_761_600;
        let mut parts = Sheet::new("parts", "", "", &[("part", ""), ("instructions", "number")]);
        parts.row([Cell::from("IP input"), Cell::Count(40)]);
        path.sheets.push(parts);
        let outcomes = [outcome, path];
        let page = page(&outcomes, &[failed]).unwrap();
        for words in [
            "A &lt;sheet&gt;",
            "a &amp; b",
            ">7<",
            "no device",
            "--quick",
            "id=\"path\"",
            "<li>cpu: perf is not installed</li>",
            "<code>longshore measure bus</code>",
            "@media print",
            "Measured 2026-12-31 23:59 UTC to 2027-01-01 00:00 UTC.",
            "<td>IP input</td><td>57</td><td>40 instructions</td><td>holds</td>",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        for outside in ["src=", "@import", "url(", "<script", "href=\"http"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
    }
}
